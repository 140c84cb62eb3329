"""Users, managed by the backend's own user over HTTP: in a cluster nobody reaches its folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deployer.backend.data_folder import read_key
from deployer.backend.db.accounts import (
    add_key,
    create_user,
    find_caller,
    list_keys,
    list_present_users,
    remove_user,
    revoke_key,
)
from deployer.backend.db.rows import Connection
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.resolvers.wire import Info
from deployer.backend.refusal import Refusal

resolvers = Resolvers()


@resolvers.field("Mutation.deployerAddUser")
def resolve_add_user(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Add a user with one key, or give one who is there another; repeated, it changes nothing."""
    name, label = input["name"], input.get("label") or ""

    def add(db: Connection, _: str) -> None:
        is_there = name in [user.name for user in list_present_users(db)]
        act = add_key if is_there else create_user
        act(db, name, input["key"], info.context.backend.now(), label)

    return _as_owner(info, add)


@resolvers.field("Mutation.deployerRevokeUserKey")
def resolve_revoke_user_key(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Refuse one key of a user from now on."""
    kept = read_key(info.context.backend.folder)

    def revoke(db: Connection, _: str) -> None:
        revoke_key(db, input["name"], input["key_id"], kept)

    return _as_owner(info, revoke)


@resolvers.field("Mutation.deployerRemoveUser")
def resolve_remove_user(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Refuse a user's keys from now on; what they made stays."""
    return _as_owner(info, lambda db, owner: remove_user(db, input["name"], owner))


@resolvers.field("Query.deployerUsers")
def resolve_users(_: Any, info: Info) -> list[dict[str, Any]]:
    """List the users, and what is known of their keys."""
    users: list[dict[str, Any]] = []

    def read(db: Connection, _: str) -> None:
        for user in list_present_users(db):
            keys = [
                {"id": key.key_id, "label": key.label, "created_at": key.created_at}
                for key in list_keys(db, user)
            ]
            users.append({"name": user.name, "keys": keys})

    _as_owner(info, read)
    return users


def _as_owner(info: Info, act: Callable[[Connection, str], None]) -> dict[str, Any]:
    """Do what only the backend's own user may do, whose key lies in its folder."""
    request = info.context
    db = info.context.db
    owner = find_caller(db, read_key(request.backend.folder))
    agent = request.caller.sweep_id is not None
    if owner is None or agent or request.caller.user != owner.user:
        raise Refusal(403, "only the backend's own user may change users")
    try:
        act(db, owner.user.name)
    except ValueError as error:
        raise Refusal(400, str(error)) from error
    return {"success": True}
