"""Attempts: each time that a run was handed out, and how that ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from deployer.backend.db.accounts import Caller
from deployer.backend.db.agents import Agent
from deployer.backend.db.lines import last_step
from deployer.backend.db.projects import Project
from deployer.backend.db.rows import Connection, Record, change, find, find_all, select, select_one
from deployer.backend.db.runs import Run, insert_assigned, insert_run
from deployer.backend.db.sweeps import Sweep

FINISHED = "finished"
# Its rows and its exit record have come, but its process was then killed, or nobody saw it end.
DELIVERED = "delivered"


@dataclass(frozen=True)
class Attempt(Record):
    """One time that a run was handed out; `cause` says why it ended, None while it lasts.

    `exit_code` came with the run's exit record, `process_exit_code` is what its supervisor saw.
    `output` is what it printed last, if its supervisor reported it.
    """

    table: ClassVar = "attempts"

    run_id: int
    number: int
    agent_id: int | None
    assigned_at: float
    ended_at: float | None
    cause: str | None
    exit_code: int | None
    process_exit_code: int | None
    output: str | None

    @property
    def known_exit_code(self) -> int | None:
        """Return the process's exit code; None if unknown, as where only rows were delivered."""
        if self.process_exit_code is not None or self.cause == DELIVERED:
            return self.process_exit_code
        return self.exit_code


def list_attempts(db: Connection, run: Run) -> list[Attempt]:
    """Return a run's attempts, oldest first."""
    return find_all(db, Attempt, "number", run_id=run.id)


def list_sweep_attempts(db: Connection, sweep: Sweep) -> dict[int, list[Attempt]]:
    """Return the attempts of each of a sweep's runs, oldest first, by the run's row id."""
    found: dict[int, list[Attempt]] = {}
    tail = "WHERE run_id IN (SELECT id FROM runs WHERE sweep_id = ?) ORDER BY number"
    for attempt in select(db, Attempt, tail, sweep.id):
        found.setdefault(attempt.run_id, []).append(attempt)
    return found


def assign_run(
    db: Connection, sweep: Sweep, agent: Agent, ordinal: int, args: dict[str, Any], now: float
) -> Run:
    """Create the sweep's next run for an agent."""
    run = insert_assigned(db, sweep, ordinal, args, None, now, agent_id=agent.id)
    begin_attempt(db, run.id, 1, agent.id, now)
    return run


def create_run(db: Connection, caller: Caller, project: Project, name: str, now: float) -> Run:
    """Create a run that no sweep asked for, at its first attempt."""
    owner = {"project_id": project.id, "user_id": caller.user.id}
    run = insert_run(db, now, **owner, name=name, display_name=name)
    begin_attempt(db, run.id, 1, None, now)
    return run


def reassign_run(db: Connection, run: Run, agent: Agent, now: float) -> Run:
    """Hand a queued run out again, as its next attempt, with its original arguments."""
    number = run.attempt + 1
    begin_attempt(db, run.id, number, agent.id, now)
    return change(
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
    """Count a run that was sent to the same agent again as another attempt."""
    settle_attempt(db, run, cause, None, now)
    number = run.attempt + 1
    begin_attempt(db, run.id, number, run.agent_id, now)
    return change(db, run, attempt=number)


def settle_attempt(db: Connection, run: Run, cause: str, exit_code: int | None, now: float) -> None:
    """Record how the run's current attempt ended, unless that is recorded already.

    One without `wandb.init` has no last step, whatever those before it have logged.
    """
    step = None if run.started_at is None else last_step(db, run.id)
    db.execute(
        "UPDATE attempts SET ended_at = ?, cause = ?, exit_code = ?, last_step = ?"
        " WHERE run_id = ? AND number = ? AND ended_at IS NULL",
        (now, cause, exit_code, step, run.id, run.attempt),
    )
    _doubt_end(db, run.id, run.attempt)


def find_attempt(db: Connection, run: Run, agent_name: str, moment: float) -> Attempt | None:
    """Return the attempt at a run that the agent of that name was working on at `moment`."""
    tail = (
        "WHERE run_id = ? AND assigned_at <= ?"
        " AND agent_id IN (SELECT id FROM agents WHERE name = ? AND sweep_id = ?)"
        " ORDER BY number DESC"
    )
    return select_one(db, Attempt, tail, run.id, moment, agent_name, run.sweep_id)


def note_process_end(
    db: Connection, attempt: Attempt, exit_code: int | None, output: str | None
) -> None:
    """Record how an attempt's process ended, unless a supervisor has reported that already."""
    db.execute(
        "UPDATE attempts SET process_exit_code = COALESCE(process_exit_code, ?),"
        " output = COALESCE(output, ?) WHERE run_id = ? AND number = ?",
        (exit_code, output, attempt.run_id, attempt.number),
    )
    _doubt_end(db, attempt.run_id, attempt.number)


def has_process_ended(db: Connection, run: Run) -> bool:
    """Tell whether a supervisor has reported the end of the current attempt's process."""
    last = last_attempt(db, run)
    return last.process_exit_code is not None or last.output is not None


def _doubt_end(db: Connection, run_id: int, number: int) -> None:
    """Mark a finished attempt whose process ended badly as one that only delivered its rows."""
    db.execute(
        "UPDATE attempts SET cause = ? WHERE run_id = ? AND number = ? AND cause = ?"
        " AND process_exit_code != 0",
        (DELIVERED, run_id, number, FINISHED),
    )


def count_stalled_kills(db: Connection, run: Run) -> int:
    """Count the kills of a run's own process since an attempt has got further than all before.

    Those are meant that a supervisor saw, or the server while the agent went on: what is told of a
    run whose agent or machine died has W&B's exit code and no process's.
    """
    furthest, kills = -1.0, 0
    for step, killed in db.execute(
        "SELECT COALESCE(last_step, -1), cause = 'signal'"
        " AND (process_exit_code IS NOT NULL OR exit_code IS NULL)"
        " FROM attempts WHERE run_id = ? ORDER BY number",
        (run.id,),
    ):
        if step > furthest:
            furthest, kills = step, 0
        else:
            kills += killed or 0
    return kills


def count_early_kills(db: Connection, run: Run) -> int:
    """Count the attempts whose own process was seen killed before `wandb.init`."""
    found = db.execute(
        "SELECT COUNT(*) FROM attempts WHERE run_id = ? AND cause IN ('signal', 'OOM')"
        " AND process_exit_code IS NOT NULL AND last_step IS NULL",
        (run.id,),
    )
    return int(found.fetchone()[0])


def last_attempt(db: Connection, run: Run) -> Attempt:
    """Return the run's current attempt; an empty one if it never had any."""
    found = find(db, Attempt, run_id=run.id, number=run.attempt)
    return found or Attempt(run.id, run.attempt, None, 0.0, *[None] * 5)


def reopen_attempt(db: Connection, run: Run) -> None:
    """Undo the end of the run's current attempt."""
    db.execute(
        "UPDATE attempts SET ended_at = NULL, cause = NULL WHERE run_id = ? AND number = ?",
        (run.id, run.attempt),
    )


def begin_attempt(
    db: Connection, run_id: int, number: int, agent_id: int | None, now: float
) -> None:
    """Record that a run is handed out."""
    db.execute(
        "INSERT INTO attempts (run_id, number, agent_id, assigned_at) VALUES (?, ?, ?, ?)",
        (run_id, number, agent_id, now),
    )
