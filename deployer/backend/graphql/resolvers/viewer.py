"""The user that the key belongs to, and what this server can do."""

from __future__ import annotations

from typing import Any

from deployer.backend.db.accounts import User, list_keys
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.resolvers.wire import Info, encode_id

# What W&B's clients may rely on here; each is probed by its name.
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
        # By number: the server stores nothing of keys but hashes.
        "User.apiKeys": lambda db, user: [
            {"id": key.id, "name": f"key {key.id}", "description": key.label}
            for key in list_keys(db, user)
        ],
    }
)


@resolvers.field("Query.viewer")
def resolve_viewer(_: Any, info: Info) -> User:
    return info.context.caller.user


@resolvers.field("Query.users")
def resolve_users(_: Any, info: Info, query: str | None = None) -> list[User]:
    """Find the caller by the beginning or the end of their name; nobody sees the others."""
    row = info.context.caller.user
    found = row.name.startswith(query or "") or row.name.endswith(query or "")
    return [row] if found else []


@resolvers.field("Query.entity")
def resolve_entity(_: Any, info: Info, name: str) -> dict[str, Any] | None:
    row = info.context.caller.user
    return entity_of(row) if name == row.name else None


def entity_of(row: User) -> dict[str, Any]:
    """Return a user's own entity, as W&B describes one that is no team."""
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
