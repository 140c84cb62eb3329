"""Users, managed by the backend's own user over HTTP: in a cluster nobody reaches its folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ariadne import MutationType, QueryType

from deployer.backend.data_folder import read_key
from deployer.backend.db.rows import Connection
from deployer.backend.db.users import keys as user_keys
from deployer.backend.db.users.accounts import (
    Key,
    create_user,
    find_caller,
    get_user,
    list_present_users,
    remove_user,
)
from deployer.backend.graphql.resolvers.wire import Info, transaction
from deployer.backend.refusal import Refusal

query = QueryType()
mutation = MutationType()


@mutation.field("deployerAddUser")
def resolve_add_user(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Add a user with one key; a repeated request changes nothing."""

    def add(db: Connection, _: str) -> None:
        known = find_caller(db, input["key"])
        if known is None or known.user.name != input["name"]:
            create_user(db, input["name"], input["key"], info.context.backend.now())

    return _as_owner(info, add)


@mutation.field("deployerAddUserKey")
def resolve_add_user_key(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Give a user another key, or replace all by it; not the backend's own user."""
    name, key, only = input["name"], input["key"], bool(input.get("only"))
    label, now = input.get("label") or "", info.context.backend.now()

    def add(db: Connection, owner: str) -> None:
        _check_not_owner(name, owner)
        user_keys.add_key(db, name, key, now, only, label)

    return _as_owner(info, add)


@mutation.field("deployerRotateUserKey")
def resolve_rotate_user_key(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Put a new key in the place of one of a user's; not of the backend's own user's."""
    name, key_id, key = input["name"], input["key_id"], input["key"]
    now = info.context.backend.now()

    def rotate(db: Connection, owner: str) -> None:
        _check_not_owner(name, owner)
        user_keys.rotate_key(db, name, key_id, key, now)

    return _as_owner(info, rotate)


@mutation.field("deployerRevokeUserKey")
def resolve_revoke_user_key(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Refuse one key of a user from now on."""
    kept = read_key(info.context.backend.folder)

    def revoke(db: Connection, _: str) -> None:
        user_keys.revoke_key(db, input["name"], input["key_id"], kept)

    return _as_owner(info, revoke)


@mutation.field("deployerRemoveUser")
def resolve_remove_user(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Refuse a user's keys from now on; what they made stays."""
    return _as_owner(info, lambda db, owner: remove_user(db, input["name"], owner))


@query.field("deployerUsers")
def resolve_users(_: Any, info: Info) -> list[str]:
    names: list[str] = []
    _as_owner(info, lambda db, _: names.extend(user.name for user in list_present_users(db)))
    return names


@query.field("deployerUserKeys")
def resolve_user_keys(_: Any, info: Info, name: str) -> list[dict[str, Any]]:
    """List what is known of a user's keys."""
    found: list[Key] = []
    _as_owner(info, lambda db, _: found.extend(user_keys.list_keys(db, get_user(db, name))))
    return [{"id": k.key_id, "label": k.label, "created_at": k.created} for k in found]


def _check_not_owner(name: str, owner: str) -> None:
    if name == owner:
        raise ValueError(f"{owner} is the backend's own user, whose key is where it is served")


def _as_owner(info: Info, act: Callable[[Connection, str], None]) -> dict[str, Any]:
    """Do what only the backend's own user may do, whose key lies in its folder."""
    request = info.context
    with transaction(info) as db:
        owner = find_caller(db, read_key(request.backend.folder))
        agent = request.caller.sweep_id is not None
        if owner is None or agent or request.caller.user != owner.user:
            raise Refusal(403, "only the backend's own user may change users")
        try:
            act(db, owner.user.name)
        except ValueError as error:
            raise Refusal(400, str(error)) from error
    return {"success": True}
