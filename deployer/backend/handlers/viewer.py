"""Who is asking, and what this server can do."""

from __future__ import annotations

from typing import Any

from ariadne import ObjectType, QueryType

from deployer.backend.accounts import User
from deployer.backend.handlers.wire import Info, encode_id

query = QueryType()
user = ObjectType("User")

# What W&B's clients may rely on here; each is probed by its name.
FEATURES = (
    "CLIENT_IDS",
    "STRUCTURED_CONSOLE_LOGS",
    "MARK_RUN_FILES_UPLOADED",
    "TOTAL_COUNT_IN_FILE_CONNECTION",
    "SWEEPS_QUERY_FILTERING",
    "FILESTREAM_GZIP",
)
OLDEST_CLIENT, NEWEST_CLIENT = "0.22.0", "1.0.0"


@query.field("viewer")
def resolve_viewer(_: Any, info: Info) -> User:
    return info.context.caller.user


@user.field("id")
def resolve_user_id(row: User, _: Info) -> str:
    return encode_id("User", row.id)


@user.field("username")
@user.field("entity")
def resolve_user_name(row: User, _: Info) -> str:
    return row.name


@user.field("email")
def resolve_email(_: User, __: Info) -> str:
    return ""


@user.field("flags")
def resolve_flags(_: User, __: Info) -> str:
    return "{}"


@user.field("admin")
def resolve_admin(_: User, __: Info) -> bool:
    return False


@user.field("teams")
def resolve_teams(row: User, _: Info) -> dict[str, Any]:
    return {"edges": [{"node": {"name": row.name}}]}


@user.field("apiKeys")
def resolve_api_keys(_: User, __: Info) -> dict[str, Any]:
    return {"edges": []}


@query.field("entity")
def resolve_entity(_: Any, info: Info, name: str) -> dict[str, Any] | None:
    caller = info.context.caller
    if name != caller.user.name:
        return None
    return {"id": encode_id("Entity", caller.user.id), "name": name, "is_team": False}


@query.field("serverInfo")
def resolve_server_info(_: Any, __: Info) -> dict[str, Any]:
    return {
        "cli_version_info": {"min_cli_version": OLDEST_CLIENT, "max_cli_version": NEWEST_CLIENT},
        "latest_local_version_info": {
            "out_of_date": False,
            "latest_version_string": NEWEST_CLIENT,
            "version_on_this_instance_string": NEWEST_CLIENT,
        },
        "features": [{"name": name, "is_enabled": True} for name in FEATURES],
    }
