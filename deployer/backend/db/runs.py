"""Runs and their agents: rows, write permission, change tracking.

Triggers number every change. A rollback frees its numbers for reuse, so keep only committed ones.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any, ClassVar

from deployer.backend.db.accounts import Caller, ProjectRow, check_newest
from deployer.backend.db.rows import Connection, TableRow, find, insert, select
from deployer.backend.db.sweeps import SweepRow
from deployer.backend.request import Refusal, not_found, read_object

ACTIVE = ("pending", "running", "preempting")
IS_ACTIVE = "state IN ('pending', 'running', 'preempting')"  # word for word as in the index


@dataclass(frozen=True)
class AgentRow(TableRow):
    """An agent; `name` is the one that its own key was created for, else its host's name.

    `node` is its pod's node, if its supervisor reported it.
    """

    table: ClassVar = "agents"
    noun: ClassVar = "agent"

    sweep_id: int
    key_id: int | None
    name: str
    host: str
    created_at: float
    heartbeat_at: float | None
    ended_at: float | None
    node: str

    @property
    def supervised(self) -> bool:
        """Return True if it has a supervisor with its own key."""
        return self.key_id is not None


def create_agent(
    db: Connection, caller: Caller, sweep: SweepRow, host: str, now: float
) -> AgentRow:
    """Add an agent; a repeated request adds a duplicate, which never gets a run."""
    key = db.execute("SELECT node FROM keys WHERE id = ?", (caller.key_id,)).fetchone()
    return insert(
        db,
        AgentRow,
        sweep_id=sweep.id,
        key_id=caller.key_id if caller.agent_name else None,
        name=caller.agent_name or host,
        host=host,
        created_at=now,
        node=key["node"] if key else "",
    )


def end_agents(db: Connection, sweep_id: int, name: str, now: float) -> None:
    db.execute(
        "UPDATE agents SET ended_at = ? WHERE sweep_id = ? AND name = ? AND key_id IS NOT NULL"
        " AND ended_at IS NULL",
        (now, sweep_id, name),
    )


def list_agents(db: Connection, sweep: SweepRow) -> list[AgentRow]:
    """Return a sweep's agents that have reported at least once, oldest first."""
    tail = "WHERE sweep_id = ? AND heartbeat_at IS NOT NULL ORDER BY id"
    return select(db, AgentRow, tail, sweep.id)


@dataclass(frozen=True)
class RunRow(TableRow):
    """A stored run; `config` and `summary` are JSON text that may contain bare NaN.

    `queued` is 1 while the run waits for its next assignment. `announced` is a supervisor's reason
    for ending this attempt, which overrides the exit code. `forgiven` is the number of failures
    that no longer count, since a user healed the sweep. `deliveries` counts how often this attempt
    was sent to its agent; `reported` is 1 once the agent reported it as alive. `started_at` is None
    until the trainer's first `wandb.init`. `vanished_at` is when the agent stopped reporting it
    without an exit record.

    `undecided_lines` is the number of history lines when a process began that may continue or
    replace them; `former` are the columns of the process before. `first_offset` is the offset of
    line 0 in its stream. `apart` is a JSON list of runs with other data that was logged under its
    id; they have the same agent and no sweep.
    """

    table: ClassVar = "runs"
    noun: ClassVar = "run"

    project_id: int
    user_id: int
    name: str
    sweep_id: int | None
    ordinal: int | None
    args: str | None
    state: str
    queued: int
    stop_requested_at: float | None
    preempting: int
    announced: str | None
    agent_id: int | None
    attempt: int
    forgiven: int
    deliveries: int
    reported: int
    started_at: float | None
    vanished_at: float | None
    ended_at: float | None
    exit_code: int | None
    config: str
    summary: str
    tags: str
    display_name: str | None
    group_name: str | None
    job_type: str | None
    commit_hash: str | None
    host: str | None
    program: str | None
    description: str | None
    notes: str | None
    created_at: float
    heartbeat_at: float | None
    undecided_lines: int | None
    former: str | None
    first_offset: int
    apart: str

    @property
    def apart_names(self) -> list[str]:
        """Return the names of the runs with other data that was logged under its id."""
        names: list[str] = json.loads(self.apart)
        return names

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    @property
    def at_work(self) -> bool:
        """Return True if its process has called `wandb.init` and is not known to have ended."""
        return self.active and self.started_at is not None

    @property
    def settled(self) -> bool:
        return not self.active and not self.queued

    @property
    def arguments(self) -> dict[str, Any]:
        """Return its parameters' values, or its configuration if it has no sweep."""
        if self.args is not None:
            return self.assigned_args
        config = read_object(self.config) or {}
        return {n: v["value"] for n, v in config.items() if isinstance(v, dict) and "value" in v}

    @property
    def assigned_args(self) -> dict[str, Any]:
        """Return the values that the sweep assigned to this run, by top-level parameter name."""
        args: dict[str, Any] = json.loads(self.args or "{}")
        return args


def wandb_part(config: str) -> dict[str, Any]:
    part = (read_object(config) or {}).get("_wandb")
    value = part.get("value") if isinstance(part, dict) else None
    return value if isinstance(value, dict) else {}


def insert_enqueued(
    db: Connection,
    sweep: SweepRow,
    ordinal: int | None,
    args: dict[str, Any],
    display_name: str | None,
    now: float,
) -> RunRow:
    """Create a queued run; without an ordinal it is not one of the sweep's configurations."""
    return insert_assigned(db, sweep, ordinal, args, display_name, now, queued=1, attempt=0)


def insert_assigned(
    db: Connection,
    sweep: SweepRow,
    ordinal: int | None,
    args: dict[str, Any],
    display_name: str | None,
    now: float,
    **columns: int,
) -> RunRow:
    name = f"{sweep.name}-{_first_number(db, sweep, ordinal)}"
    return insert_run(
        db,
        now,
        project_id=sweep.project_id,
        user_id=sweep.user_id,
        name=name,
        display_name=display_name or name,  # the same name here and in the terminal
        sweep_id=sweep.id,
        ordinal=ordinal,
        args=json.dumps(args),
        config=assigned_config(args),
        **columns,
    )


def assigned_config(args: dict[str, Any]) -> str:
    """Return the initial configuration of a run: only the values from its sweep."""
    return json.dumps({name: {"value": value} for name, value in args.items()})


def insert_run(db: Connection, now: float, **columns: Any) -> RunRow:
    return insert(db, RunRow, state="pending", created_at=now, **columns)


def _first_number(db: Connection, sweep: SweepRow, ordinal: int | None) -> int:
    """Return the number in a run's name: its ordinal, unless another run has that name."""
    if ordinal is None:
        of_sweep = db.execute("SELECT COUNT(*) FROM runs WHERE sweep_id = ?", (sweep.id,))
        ordinal = int(of_sweep.fetchone()[0])
    return free_number(db, sweep.project_id, sweep.name, ordinal)


def free_number(db: Connection, project_id: int, stem: str, number: int) -> int:
    while is_taken(db, project_id, f"{stem}-{number}"):
        number += 1
    return number


def is_taken(db: Connection, project_id: int, name: str) -> bool:
    """Return True if a run has this name or a deleted run had it, which may still be running."""
    names = "SELECT project_id, name FROM runs UNION ALL SELECT * FROM deleted_runs"
    taken = f"SELECT 1 FROM ({names}) WHERE project_id = ? AND name = ?"
    return db.execute(taken, (project_id, name)).fetchone() is not None


def get_run(db: Connection, project: ProjectRow, name: str) -> RunRow:
    """Return a project's run by its short id; refuse with 404 if not found."""
    run = find(db, RunRow, project_id=project.id, name=name)
    if run is None:
        raise not_found(f"run {name}")
    return run


def may_write(db: Connection, caller: Caller, run: RunRow) -> bool:
    try:
        check_writer(db, caller, run)
    except Refusal:
        return False
    return True


def check_writer(db: Connection, caller: Caller, run: RunRow) -> None:
    """Refuse an agent's key with 403 if the run is not assigned to this agent.

    A newer key of the same agent may write, since a restarted supervisor cleans up after its
    predecessor. An older key may not, so an orphan never writes into its successor's run.
    """
    if caller.sweep_id is None:
        return
    check_newest(caller)
    agent = find(db, AgentRow, id=run.agent_id)
    if (
        agent is None
        or (agent.sweep_id, agent.name) != (caller.sweep_id, caller.agent_name)
        or caller.key_id < (agent.key_id or 0)
    ):
        raise Refusal(403, f"run {run.name} belongs to another agent")


@dataclass(frozen=True)
class Mark:
    """A sweep's revision: the number of its last change, and how many runs were removed."""

    revision: int
    removals: int


def mark_of(db: Connection, sweep_id: int) -> Mark:
    """Return a sweep's current revision."""
    marks = "SELECT revision, removals FROM sweeps WHERE id = ?"
    return Mark(*db.execute(marks, (sweep_id,)).fetchone())


def changed_since(db: Connection, sweep_id: int, revision: int, columns: str) -> list[sqlite3.Row]:
    """Return `columns` of the runs changed after a revision, oldest first; -1 means all."""
    found = f"SELECT {columns} FROM runs WHERE sweep_id = ? AND revision > ? ORDER BY id"
    return db.execute(found, (sweep_id, revision)).fetchall()
