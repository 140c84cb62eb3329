"""Attempts: each time that a run was handed out, and how that ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deployer.backend.db.accounts import Caller
from deployer.backend.db.agents import Agent
from deployer.backend.db.database import Connection, insert, select
from deployer.backend.db.projects import Project
from deployer.backend.db.runs import Run, change_run, insert_assigned, insert_run
from deployer.backend.db.sweeps import Sweep


@dataclass(frozen=True)
class Attempt:
    """One time that a run was handed out; `cause` says why it ended, None while it lasts."""

    run_id: int
    number: int
    agent_id: int | None
    assigned_at: float
    ended_at: float | None
    cause: str | None
    exit_code: int | None


def list_attempts(db: Connection, run: Run) -> list[Attempt]:
    """Return a run's attempts, first to last."""
    return select(db, Attempt, "attempts WHERE run_id = ? ORDER BY number", [run.id])


def assign_run(
    db: Connection, sweep: Sweep, agent: Agent, ordinal: int, args: dict[str, Any], now: float
) -> Run:
    """Create the sweep's next run for an agent."""
    run = insert_assigned(db, sweep, ordinal, args, None, now, agent_id=agent.id)
    _begin(db, run.id, 1, agent.id, now)
    return run


def create_run(db: Connection, caller: Caller, project: Project, name: str, now: float) -> Run:
    """Create a run that no sweep asked for, at its first attempt."""
    owner = {"project_id": project.id, "user_id": caller.user.id}
    run = insert_run(db, now, **owner, name=name, display_name=name)
    _begin(db, run.id, 1, None, now)
    return run


def reassign_run(db: Connection, run: Run, agent: Agent, now: float) -> Run:
    """Hand a queued run out again, as its next attempt, with its original arguments."""
    number = run.attempt + 1
    _begin(db, run.id, number, agent.id, now)
    return change_run(
        db,
        run,
        state="pending",
        queued=0,
        preempting=0,
        announced=None,
        stop_requested_at=None,
        attempt=number,
        agent_id=agent.id,
        deliveries=0,
        reported=0,
        started_at=None,
        vanished_at=None,
        ended_at=None,
        exit_code=None,
    )


def repeat_attempt(db: Connection, run: Run, cause: str, now: float) -> Run:
    """Count what was sent to the same agent once more as another attempt."""
    settle_attempt(db, run, cause, None, now)
    number = run.attempt + 1
    _begin(db, run.id, number, run.agent_id, now)
    return change_run(db, run, attempt=number)


def settle_attempt(db: Connection, run: Run, cause: str, exit_code: int | None, now: float) -> None:
    """Write down how the run's present attempt ended; the first word stays."""
    db.execute(
        "UPDATE attempts SET ended_at = ?, cause = ?, exit_code = ?"
        " WHERE run_id = ? AND number = ? AND ended_at IS NULL",
        (now, cause, exit_code, run.id, run.attempt),
    )


def last_cause(db: Connection, run: Run) -> str | None:
    """Return why the run's present attempt ended, None while it lasts."""
    found = db.execute(
        "SELECT cause FROM attempts WHERE run_id = ? AND number = ?", (run.id, run.attempt)
    ).fetchone()
    return found[0] if found else None


def reopen_attempt(db: Connection, run: Run) -> None:
    """Take back that the run's present attempt has ended."""
    db.execute(
        "UPDATE attempts SET ended_at = NULL, cause = NULL WHERE run_id = ? AND number = ?",
        (run.id, run.attempt),
    )


def _begin(db: Connection, run_id: int, number: int, agent_id: int | None, now: float) -> None:
    insert(db, "attempts", run_id=run_id, number=number, agent_id=agent_id, assigned_at=now)
