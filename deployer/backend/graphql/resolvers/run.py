"""Runs: their fields, as the SDK's resume and the public API read them."""

from __future__ import annotations

import json
from typing import Any

from deployer.backend.db.accounts import User
from deployer.backend.db.lines import Stream, count_lines, last_lines
from deployer.backend.db.projects import Project
from deployer.backend.db.rows import Connection, find, get
from deployer.backend.db.runs import Run, wandb_part
from deployer.backend.db.sweeps import Sweep
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.resolvers.wire import Info
from deployer.backend.parsing import read_object

resolvers = Resolvers(
    {
        "Run.group": lambda _, run: run.group_name,
        "Run.commit": lambda _, run: run.commit_hash,
        "Run.exitcode": lambda _, run: run.exit_code,
        "Run.summaryMetrics": lambda _, run: run.summary,
        "Run.tags": lambda _, run: json.loads(run.tags),
        "Run.heartbeatAt": lambda _, run: run.heartbeat_at or run.created_at,
        "Run.shouldStop": lambda _, run: run.stop_requested_at is not None,
        "Run.stopped": lambda _, run: run.stop_requested_at is not None,
        "Run.failed": lambda _, run: run.state in ("failed", "crashed"),
        "Run.running": lambda _, run: run.active,
        "Run.readOnly": lambda *_: False,
        "Run.sweepName": lambda db, run: run.sweep_id and get(db, Sweep, run.sweep_id).name,
        "Run.user": lambda db, run: find(db, User, id=run.user_id),
        "Run.project": lambda db, run: get(db, Project, run.project_id),
        "Run.historyLineCount": lambda db, run: count_lines(db, run.id, "history"),
        "Run.eventsLineCount": lambda db, run: count_lines(db, run.id, "events"),
        "Run.logLineCount": lambda db, run: count_lines(db, run.id, "output"),
        "Run.historyTail": lambda db, run: _tail(db, run, "history"),
        "Run.eventsTail": lambda db, run: _tail(db, run, "events"),
    }
)


@resolvers.field("Run.wandbConfig")
def resolve_wandb_config(row: Run, _: Info, keys: list[str] | None = None) -> dict[str, Any]:
    """Answer the SDK's question whether this run was ever started."""
    if row.started_at is None and row.attempt == 1:
        return {}
    inner = wandb_part(row.config)
    return {key: inner[key] for key in inner if not keys or key in keys}


def _tail(db: Connection, run: Run, stream: Stream) -> list[str]:
    return [text for _, text in last_lines(db, run.id, stream, 1)]


@resolvers.field("Run.systemMetrics")
def resolve_system_metrics(row: Run, info: Info) -> dict[str, Any]:
    tail = _tail(info.context.db, row, "events")
    newest = (read_object(tail[0]) if tail else None) or {}
    return {key: value for key, value in newest.items() if not key.startswith("_")}
