"""The caller, the backend's users and their projects; the backend's own user manages users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deployer.backend.data_folder import read_key
from deployer.backend.db.accounts import (
    ProjectRow,
    User,
    add_key,
    create_user,
    ensure_project,
    find_caller,
    find_project,
    list_keys,
    list_present_users,
    list_projects,
    remove_user,
    revoke_key,
)
from deployer.backend.db.rows import Connection, find
from deployer.backend.db.runs import RunRow
from deployer.backend.db.sweeps import find_sweep, list_sweeps
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.filters import Filter
from deployer.backend.graphql.listing import SWEEP_FIELDS, Info, Runs, encode_id, page_of
from deployer.backend.request import Refusal, not_found

# Server features that W&B's clients query by name.
FEATURES = (
    "CLIENT_IDS",
    "STRUCTURED_CONSOLE_LOGS",
    "MARK_RUN_FILES_UPLOADED",
    "TOTAL_COUNT_IN_FILE_CONNECTION",
    "ARTIFACT_COLLECTIONS_FILTERING_SORTING",
    "SWEEPS_QUERY_FILTERING",
    "FILESTREAM_GZIP",
    "SWEEPS_LOCAL_SCHEDULER",
)
OLDEST_CLIENT, NEWEST_CLIENT = "0.22.0", "1.0.0"
SERVER_INFO = {
    "cli_version_info": {"min_cli_version": OLDEST_CLIENT, "max_cli_version": NEWEST_CLIENT},
    "latest_local_version_info": {
        "out_of_date": False,
        "latest_version_string": NEWEST_CLIENT,
        "version_on_this_instance_string": NEWEST_CLIENT,
    },
    "features": [{"name": name, "is_enabled": True} for name in FEATURES],
}
resolvers = Resolvers(
    {
        "Query.serverInfo": lambda *_: SERVER_INFO,
        "User.username": lambda _, user: user.name,
        "User.entity": lambda _, user: user.name,
        "User.email": lambda *_: "",
        "User.flags": lambda *_: {},
        "User.admin": lambda *_: False,
        "User.teams": lambda _, user: [{"name": user.name}],
        # Named by number, since the server stores only hashes of keys.
        "User.apiKeys": lambda db, user: [
            {"id": key.id, "name": f"key {key.id}", "description": key.label}
            for key in list_keys(db, user)
        ],
        "Project.internalId": lambda _, project: project.id,
        "Project.entityName": lambda _, project: project.entity,
        "Project.isBenchmark": lambda *_: False,
        "Project.readOnly": lambda *_: False,
        "Project.access": lambda *_: "USER_READ",
        "Project.user": lambda db, project: find(db, User, id=project.user_id),
        "Project.totalSweeps": lambda db, project: len(list_sweeps(db, project)),
        "Project.sweep": lambda db, project, sweep_name: find_sweep(db, project, sweep_name),
        "Project.runCount": lambda db, project, filters=None: Runs(db, project.id, filters).count(),
    }
)


@resolvers.field("Query.viewer")
def resolve_viewer(_: Any, info: Info) -> User:
    return info.context.caller.user


@resolvers.field("Query.users")
def resolve_users(_: Any, info: Info, query: str | None = None) -> list[User]:
    """Find the caller by a prefix or suffix of their name; other users are invisible."""
    row = info.context.caller.user
    found = row.name.startswith(query or "") or row.name.endswith(query or "")
    return [row] if found else []


@resolvers.field("Query.entity")
def resolve_entity(_: Any, info: Info, name: str) -> dict[str, Any] | None:
    row = info.context.caller.user
    if name != row.name and "members" in str(info.field_nodes[0].to_dict()):  # as create_team does
        raise Refusal(404, f"this server has no team {name}: each user has an entity of their own")
    return entity_of(row) if name == row.name else None


def entity_of(row: User) -> dict[str, Any]:
    """Return a user's own entity as W&B's personal entity."""
    member = {"id": encode_id("User", row.id), "username": row.name, "name": row.name}
    return {
        "id": row.id,
        "name": row.name,
        "available": False,
        "read_only": False,
        "read_only_admin": False,
        "is_team": False,
        "entity_type": "PERSONAL",
        "private_only": True,
        "storage_bytes": 0,
        "code_saving_enabled": True,
        "default_access": "PRIVATE",
        "is_paid": False,
        "members": [{**member, "admin": False, "pending": False, "account_type": "USER"}],
    }


@resolvers.field("Mutation.deployerAddUser")
def resolve_add_user(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Add a user with one key, or a key to an existing user; idempotent."""
    name, label = input["name"], input.get("label") or ""

    def add(db: Connection, _: str) -> None:
        is_there = name in [user.name for user in list_present_users(db)]
        act = add_key if is_there else create_user
        act(db, name, input["key"], info.context.backend.now(), label)

    return _as_owner(info, add)


@resolvers.field("Mutation.deployerRevokeUserKey")
def resolve_revoke_user_key(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    kept = read_key(info.context.backend.folder)

    def revoke(db: Connection, _: str) -> None:
        revoke_key(db, input["name"], input["key_id"], kept)

    return _as_owner(info, revoke)


@resolvers.field("Mutation.deployerRemoveUser")
def resolve_remove_user(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Remove a user and revoke their keys; their data stays."""
    return _as_owner(info, lambda db, owner: remove_user(db, input["name"], owner))


@resolvers.field("Query.deployerUsers")
def resolve_all_users(_: Any, info: Info) -> list[dict[str, Any]]:
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
    """Run `act` if the caller is the backend's own user, whose key is in its folder."""
    request = info.context
    db = request.db
    owner = find_caller(db, read_key(request.backend.folder))
    agent = request.caller.sweep_id is not None
    if owner is None or agent or request.caller.user != owner.user:
        raise Refusal(403, "only the backend's own user may change users")
    try:
        act(db, owner.user.name)
    except ValueError as error:
        raise Refusal(400, str(error)) from error
    return {"success": True}


# Projects with their sweeps and runs.


@resolvers.field("Query.project")
@resolvers.field("Query.model")
def resolve_project(
    _: Any, info: Info, name: str | None = None, entity_name: str | None = None
) -> ProjectRow | None:
    return find_project(info.context.db, info.context.caller, entity_name, name)


@resolvers.field("Query.projects")
@resolvers.field("Query.models")
def resolve_projects(
    _: Any,
    info: Info,
    entity_name: str | None = None,
    after: str | None = None,
    first: int | None = None,
) -> dict[str, Any]:
    found = list_projects(info.context.db, info.context.caller, entity_name)
    return page_of(found, "-id", after, first)


@resolvers.field("Mutation.upsertModel")
def resolve_upsert_model(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    wanted = (input.get("entity_name"), input.get("name"))
    db = request.db
    inserted = find_project(db, request.caller, *wanted) is None
    row = ensure_project(db, request.caller, *wanted, request.backend.now())
    return {"project": row, "model": row, "inserted": inserted}


@resolvers.field("Project.entity")
def resolve_project_entity(_: ProjectRow, info: Info) -> dict[str, Any]:
    return entity_of(info.context.caller.user)


@resolvers.field("Project.sweeps")
def resolve_sweeps(
    row: ProjectRow,
    info: Info,
    after: str | None = None,
    first: int | None = None,
    filters: str | None = None,
) -> dict[str, Any]:
    wanted = Filter(filters, SWEEP_FIELDS)
    found = [sweep for sweep in list_sweeps(info.context.db, row) if wanted.passes(sweep)]
    return page_of(found, "-id", after, first)


@resolvers.field("Project.run")
@resolvers.field("Project.bucket")
def resolve_run(
    row: ProjectRow, info: Info, name: str, missing_ok: bool | None = None, **_: Any
) -> RunRow | None:
    run = find(info.context.db, RunRow, project_id=row.id, name=name)
    if run is None and missing_ok is False:
        raise not_found(f"run {name}")
    return run


@resolvers.field("Project.runs")
@resolvers.field("Project.buckets")
def resolve_runs(
    row: ProjectRow,
    info: Info,
    filters: str | None = None,
    after: str | None = None,
    first: int | None = None,
    order: str | None = None,
) -> dict[str, Any]:
    return Runs(info.context.db, row.id, filters).page(order, after, first)
