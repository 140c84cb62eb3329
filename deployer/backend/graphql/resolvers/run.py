"""Runs: their fields, as the SDK's resume and the public API read them."""

from __future__ import annotations

import json

from deployer.backend.db.accounts import User
from deployer.backend.db.lines import count_lines, last_lines
from deployer.backend.db.projects import Project
from deployer.backend.db.rows import find, get
from deployer.backend.db.runs import Run, wandb_part
from deployer.backend.db.sweeps import Sweep
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.resolvers.wire import Info, transaction
from deployer.backend.parsing import read_object

resolvers = Resolvers(
    {
        "Run.group": lambda _, row: row.group_name,
        "Run.commit": lambda _, row: row.commit_hash,
        "Run.exitcode": lambda _, row: row.exit_code,
        "Run.summaryMetrics": lambda _, row: row.summary,
    }
)


@resolvers.field("Run.sweepName")
def resolve_sweep_name(row: Run, info: Info) -> str | None:
    if row.sweep_id is None:
        return None
    with transaction(info) as db:
        return get(db, Sweep, row.sweep_id).name


@resolvers.field("Run.wandbConfig")
def resolve_wandb_config(row: Run, _: Info, keys: list[str] | None = None) -> str:
    """Answer the SDK's question whether this run was ever started."""
    if row.started_at is None and row.attempt == 1:
        return "{}"
    inner = wandb_part(row.config)
    return json.dumps({key: inner[key] for key in inner if not keys or key in keys})


@resolvers.field("Run.tags")
def resolve_tags(row: Run, _: Info) -> list[str]:
    tags: list[str] = json.loads(row.tags)
    return tags


@resolvers.field("Run.heartbeatAt")
def resolve_heartbeat_at(row: Run, _: Info) -> float:
    return row.heartbeat_at or row.created_at


@resolvers.field("Run.shouldStop")
@resolvers.field("Run.stopped")
def resolve_should_stop(row: Run, _: Info) -> bool:
    return row.stop_requested_at is not None


@resolvers.field("Run.failed")
def resolve_failed(row: Run, _: Info) -> bool:
    return row.state in ("failed", "crashed")


@resolvers.field("Run.running")
def resolve_running(row: Run, _: Info) -> bool:
    return row.active


@resolvers.field("Run.readOnly")
def resolve_read_only(_: Run, __: Info) -> bool:
    return False


@resolvers.field("Run.user")
def resolve_user(row: Run, info: Info) -> User | None:
    with transaction(info) as db:
        return find(db, User, id=row.user_id)


@resolvers.field("Run.project")
def resolve_project(row: Run, info: Info) -> Project:
    with transaction(info) as db:
        return get(db, Project, row.project_id)


@resolvers.field("Run.historyLineCount")
def resolve_history_line_count(row: Run, info: Info) -> int:
    with transaction(info) as db:
        return count_lines(db, row.id, "history")


@resolvers.field("Run.eventsLineCount")
def resolve_events_line_count(row: Run, info: Info) -> int:
    with transaction(info) as db:
        return count_lines(db, row.id, "events")


@resolvers.field("Run.logLineCount")
def resolve_log_line_count(row: Run, info: Info) -> int:
    with transaction(info) as db:
        return count_lines(db, row.id, "output")


@resolvers.field("Run.historyTail")
def resolve_history_tail(row: Run, info: Info) -> str:
    with transaction(info) as db:
        return json.dumps([text for _, text in last_lines(db, row.id, "history", 1)])


@resolvers.field("Run.eventsTail")
def resolve_events_tail(row: Run, info: Info) -> str:
    with transaction(info) as db:
        return json.dumps([text for _, text in last_lines(db, row.id, "events", 1)])


@resolvers.field("Run.systemMetrics")
def resolve_system_metrics(row: Run, info: Info) -> str:
    with transaction(info) as db:
        tail = last_lines(db, row.id, "events", 1)
    newest = (read_object(tail[0][1]) if tail else None) or {}
    return json.dumps({key: value for key, value in newest.items() if not key.startswith("_")})
