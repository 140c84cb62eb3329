"""Runs: their rows, and who may write to them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from deployer.backend.db.agents import Agent
from deployer.backend.db.database import Connection, delete, insert, select, select_one, update
from deployer.backend.db.projects import Project
from deployer.backend.db.sweeps import Sweep
from deployer.backend.db.users.accounts import Caller, check_newest
from deployer.backend.parsing import read_object
from deployer.backend.refusal import Refusal, not_found

ACTIVE = ("pending", "running", "preempting")
IS_ACTIVE = "state IN ('pending', 'running', 'preempting')"  # word for word as in the index


@dataclass(frozen=True)
class Run:
    """A run as it is stored; `config` and `summary` are JSON text that may hold bare NaN.

    `queued` is 1 while the run waits to be handed out again. `announced` is the reason that a
    supervisor gave for ending this attempt, whatever its exit code will be. `forgiven` counts the
    failures that no longer count, since somebody healed the sweep. `deliveries` counts how often
    this attempt was sent to its agent; `reported` is 1 once the agent named it as alive;
    `started_at` is None until the trainer's first `wandb.init`. `vanished_at` is when the agent
    stopped naming it without an exit record. `undecided_lines` is how many lines of history there
    were when a process began that did not say whether it continues them; `first_offset` is the
    offset of line 0 in its stream. `apart` is a JSON list of the runs that hold what else was
    logged under its id: they have its agent and no sweep.
    """

    id: int
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
    first_offset: int
    apart: str

    @property
    def apart_names(self) -> list[str]:
        """Return the names of the runs that hold what else was logged under its id."""
        names: list[str] = json.loads(self.apart)
        return names

    @property
    def active(self) -> bool:
        """Tell whether an agent is, or should be, at work on it."""
        return self.state in ACTIVE

    @property
    def at_work(self) -> bool:
        """Tell whether its process has called `wandb.init` and is not known to have ended."""
        return self.active and self.started_at is not None

    @property
    def settled(self) -> bool:
        """Tell whether nothing more will happen to it."""
        return not self.active and not self.queued

    @property
    def arguments(self) -> dict[str, Any]:
        """Return its parameters' values, or its configuration if no sweep made it."""
        if self.args is not None:
            return self.assigned_args
        config = read_object(self.config) or {}
        return {n: v["value"] for n, v in config.items() if isinstance(v, dict) and "value" in v}

    @property
    def assigned_args(self) -> dict[str, Any]:
        """Return the values the sweep gave to this run, by top-level parameter name."""
        args: dict[str, Any] = json.loads(self.args or "{}")
        return args


def wandb_part(config: str) -> dict[str, Any]:
    """Return what the SDK notes in a run's configuration."""
    part = (read_object(config) or {}).get("_wandb")
    value = part.get("value") if isinstance(part, dict) else None
    return value if isinstance(value, dict) else {}


def insert_enqueued(
    db: Connection,
    sweep: Sweep,
    ordinal: int | None,
    args: dict[str, Any],
    display_name: str | None,
    now: float,
) -> Run:
    """Create a queued run; one without an ordinal is none of the sweep's configurations."""
    return insert_assigned(db, sweep, ordinal, args, display_name, now, queued=1, attempt=0)


def insert_assigned(
    db: Connection,
    sweep: Sweep,
    ordinal: int | None,
    args: dict[str, Any],
    display_name: str | None,
    now: float,
    **columns: int,
) -> Run:
    """Create a run with the values that its sweep gives it."""
    name = f"{sweep.name}-{_free_number(db, sweep, ordinal)}"
    return insert_run(
        db,
        now,
        project_id=sweep.project_id,
        user_id=sweep.user_id,
        name=name,
        display_name=display_name or name,  # one name, here and in the terminal
        sweep_id=sweep.id,
        ordinal=ordinal,
        args=json.dumps(args),
        config=json.dumps({name: {"value": value} for name, value in args.items()}),
        **columns,
    )


def insert_run(db: Connection, now: float, **columns: Any) -> Run:
    """Create a run that has not begun."""
    return run_by_id(db, insert(db, "runs", state="pending", created_at=now, **columns))


def _free_number(db: Connection, sweep: Sweep, ordinal: int | None) -> int:
    """Return the number in a run's name: its ordinal, unless another run has that name."""
    names = "SELECT name FROM runs WHERE project_id = ? AND name = ?"
    number = ordinal
    if number is None:
        of_sweep = db.execute("SELECT COUNT(*) FROM runs WHERE sweep_id = ?", (sweep.id,))
        number = int(of_sweep.fetchone()[0])
    while db.execute(names, (sweep.project_id, f"{sweep.name}-{number}")).fetchone():
        number += 1
    return number


def change_run(db: Connection, run: Run, **changes: Any) -> Run:
    """Set columns of a run and return it as it is now."""
    update(db, "runs", run.id, **changes)
    return run_by_id(db, run.id)


def delete_run(db: Connection, run: Run) -> None:
    """Delete a run with its lines and files' rows."""
    delete(db, "runs", run.id)


def run_by_id(db: Connection, run_id: int) -> Run:
    """Return a run; refuse with 404 if there is none."""
    run = select_one(db, Run, "runs WHERE id = ?", run_id)
    if run is None:
        raise not_found("run")
    return run


def has_run(db: Connection, run_id: int) -> bool:
    """Tell whether there is such a run, whoever owns it."""
    return db.execute("SELECT 1 FROM runs WHERE id = ?", (run_id,)).fetchone() is not None


def find_run(db: Connection, project: Project, name: str) -> Run | None:
    """Return a project's run by W&B's `name`, which is its short id."""
    return select_one(db, Run, "runs WHERE project_id = ? AND name = ?", project.id, name)


def get_run(db: Connection, project: Project, name: str) -> Run:
    """Return a project's run by its short id; refuse with 404 if there is none."""
    run = find_run(db, project, name)
    if run is None:
        raise not_found(f"run {name}")
    return run


def list_runs(db: Connection, tail: str, *values: Any) -> list[Run]:
    """Return runs, `tail` being the WHERE and ORDER BY of the query."""
    return select(db, Run, f"runs WHERE {tail}", values)


def may_write(db: Connection, caller: Caller, run: Run) -> bool:
    """Tell whether `check_writer` lets a caller write to a run."""
    try:
        check_writer(db, caller, run)
    except Refusal:
        return False
    return True


def check_writer(db: Connection, caller: Caller, run: Run) -> None:
    """Refuse with 403 an agent's key on a run that this agent does not hold.

    A newer key of the same agent may write: a supervisor that was started again cleans up after
    the one before it. An older one may not, so an orphan never writes into its successor's run.
    """
    if caller.sweep_id is None:
        return
    check_newest(caller)
    agent = select_one(db, Agent, "agents WHERE id = ?", run.agent_id)
    if (
        agent is None
        or (agent.sweep_id, agent.name) != (caller.sweep_id, caller.agent_name)
        or caller.key_id < (agent.key_id or 0)
    ):
        raise Refusal(403, f"run {run.name} belongs to another agent")
