"""Ends runs and sweeps in the database, including by reports from supervisors."""

from __future__ import annotations

from collections.abc import Sequence

from deployer.backend.db.accounts import Caller
from deployer.backend.db.attempts import (
    complete_summary,
    count_early_kills,
    count_stalled_kills,
    decide_former,
    end_attempt,
    find_attempt,
    last_attempt,
    note_process_end,
    reopen_attempt,
)
from deployer.backend.db.lines import clear_lines, write_lines
from deployer.backend.db.rows import Connection, change, get, select, update
from deployer.backend.db.runs import IS_ACTIVE, RunRow, end_agents
from deployer.backend.db.sweeps import DELETED, SweepRow, update_sweep
from deployer.backend.request import read_object
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.lifecycle import (
    BREAKER_FAILURES,
    OWN_FAILURES,
    EndCause,
    Marks,
    Outcome,
    judge_announcement,
    judge_disappearance,
    judge_failure,
    judge_kills,
    judge_unassigned,
    judge_unstarted,
    requeue,
)
from deployer.backend.scheduling.numbering import free_ordinal
from deployer.sweeps.results import metric_value

FORGET_SECONDS = 24 * 3600.0  # longer than any silence timeout
MAX_OUTPUT_CHARACTERS = 16384  # twice what a supervisor sends


def marks_of(run: RunRow) -> Marks:
    """Return a run's inputs for the rules in `lifecycle`."""
    return Marks(
        started=run.started_at is not None,
        preempting=bool(run.preempting),
        announced=judge_announcement(run.announced),
        stopping=run.stop_requested_at is not None,
    )


def end_run(
    backend: Backend, db: Connection, run: RunRow, outcome: Outcome, exit_code: int | None = None
) -> RunRow:
    """Record how a run's attempt ended, and end the sweep if this was its last run."""
    now = backend.now()
    if run.started_at is None:
        last = last_attempt(db, run)
        outcome = judge_unstarted(outcome, last.process_exit_code, last.output or "")
    end_attempt(db, run, outcome.cause, exit_code, now)
    if run.args is None:
        outcome = judge_unassigned(outcome, exit_code)
    queued = False
    if run.sweep_id is not None:
        sweep = get(db, SweepRow, run.sweep_id)
        if not sweep.ended and run.args is not None:
            outcome = judge_failure(outcome, count_failures(db, run), sweep.retries)
            kills = count_causes(db, run, (outcome.cause,))
            stalled = count_stalled_kills(db, run) if outcome.cause == "signal" else 0
            # A run that reports its own interruption may do so any number of times.
            known = run.started_at is not None and (exit_code is None or bool(run.announced))
            outcome = judge_kills(outcome, kills, stalled, known)
        queued = outcome.queued and sweep.state != DELETED
    run = run if queued else decide_former(db, run)
    ended = change(
        db,
        run,
        state=outcome.state,
        queued=int(queued),
        exit_code=exit_code,
        ended_at=now,
        vanished_at=None,
        summary=complete_summary(db, run),
    )
    if run.sweep_id is not None:
        if sweep.state == DELETED:
            return change(db, ended, sweep_id=None, ordinal=None)
        break_if_broken(backend, db, sweep)
        backend.suggestions.prepare(finish_if_complete(backend, db, get(db, SweepRow, sweep.id)))
    return ended


def abandon_run(backend: Backend, db: Connection, run: RunRow) -> RunRow:
    silence = backend.presence.silence_seconds("agent", run.agent_id or 0)
    agent_is_there = run.agent_id is not None and silence < backend.patience.silence_seconds
    return end_run(backend, db, run, judge_disappearance(marks_of(run), agent_is_there))


def count_failures(db: Connection, run: RunRow) -> int:
    """Count the attempts that use up a run's retries, since its sweep was last healed.

    These failed on their own, or were killed before `wandb.init`.
    """
    return count_causes(db, run, OWN_FAILURES) + count_early_kills(db, run) - run.forgiven


def count_causes(db: Connection, run: RunRow, causes: Sequence[EndCause]) -> int:
    marks = ", ".join("?" * len(causes))
    found = db.execute(
        f"SELECT COUNT(*) FROM attempts WHERE run_id = ? AND cause IN ({marks})",
        (run.id, *causes),
    )
    return int(found.fetchone()[0])


def break_if_broken(backend: Backend, db: Connection, sweep: SweepRow) -> None:
    """Stop a sweep if BREAKER_FAILURES configurations failed before any finished."""
    one = "SELECT 1 FROM runs WHERE sweep_id = ? AND state = 'finished' LIMIT 1"
    if sweep.ended or db.execute(one, (sweep.id,)).fetchone():
        return
    runs = select(db, RunRow, "WHERE sweep_id = ? AND args IS NOT NULL", sweep.id)
    failed = [run for run in runs if count_causes(db, run, OWN_FAILURES) > run.forgiven]
    if len(failed) >= BREAKER_FAILURES:
        reason = f"{len(failed)} configurations failed before any finished"
        update_sweep(db, sweep, backend.now(), state="FINISHED", stop_reason=reason)
        for run in failed:
            if run.queued:
                update(db, run, state="failed", queued=0)


def finish_if_complete(backend: Backend, db: Connection, sweep: SweepRow) -> SweepRow:
    """Set a sweep to FINISHED once all expected configurations and enqueued runs have ended."""
    if sweep.ended or sweep.expected is None or _has_open_runs(db, sweep):
        return sweep
    if free_ordinal(db, sweep) is not None:
        return sweep
    return update_sweep(db, sweep, backend.now(), state="FINISHED")


def _has_open_runs(db: Connection, sweep: SweepRow) -> bool:
    return any(
        db.execute(
            f"SELECT 1 FROM runs WHERE sweep_id = ? AND {state} AND args IS NOT NULL LIMIT 1",
            (sweep.id,),
        ).fetchone()
        for state in ("queued = 1", IS_ACTIVE)
    )


def end_waiting(backend: Backend, db: Connection, sweep: SweepRow) -> None:
    for run in select(
        db, RunRow, "WHERE sweep_id = ? AND state = 'pending' AND queued = 1", sweep.id
    ):
        end_run(backend, db, run, Outcome("killed", "stopped"))


def finish_if_target_reached(backend: Backend, db: Connection, run: RunRow) -> None:
    """End a sweep early once a run's summary has reached `metric.target`."""
    if run.sweep_id is None:
        return
    sweep = get(db, SweepRow, run.sweep_id)
    metric = sweep.settings.get("metric")
    if sweep.ended or not isinstance(metric, dict) or metric.get("target") is None:
        return
    goal = sweep.metric_goal
    value = metric_value(read_object(run.summary) or {}, str(metric.get("name")), goal)
    if value is None:
        return
    if value >= metric["target"] if goal == "maximize" else value <= metric["target"]:
        end_waiting(backend, db, update_sweep(db, sweep, backend.now(), state="FINISHED"))


def end_silent_runs(backend: Backend) -> None:
    """End runs that have been silent for too long; called every few seconds."""
    kept_seconds = max(FORGET_SECONDS, *vars(backend.patience).values())
    backend.presence.forget(kept_seconds)
    for rival, heard_at in list(backend.rivals.items()):
        if backend.now() - heard_at > kept_seconds:
            backend.rivals.pop(rival, None)
    with backend.store.snapshot() as db:
        silent = [
            run.id for run in select(db, RunRow, f"WHERE {IS_ACTIVE}") if _is_silent(backend, run)
        ]
    if not silent:
        return
    with backend.store.transaction() as db:
        for run in (get(db, RunRow, number) for number in silent):
            if not _is_silent(backend, run):
                continue
            if run.state == "pending":
                end_run(backend, db, run, requeue("node"))
            else:
                abandon_run(backend, db, run)


def _is_silent(backend: Backend, run: RunRow) -> bool:
    """Return True if a run is silent, or if it is pending and its agent is silent."""
    presence, patience = backend.presence, backend.patience.silence_seconds
    if run.state != "pending":
        return run.active and presence.silence_seconds("run", run.id) >= patience
    handed_out = run.sweep_id is not None and not run.queued
    return handed_out and presence.silence_seconds("agent", run.agent_id or 0) >= patience


def requeue_failed(backend: Backend, db: Connection, sweep: SweepRow) -> int:
    """Reopen a sweep for failed, killed, interrupted or unassigned runs; return their number.

    A complete sweep does not change.
    """
    early = "" if "early_terminate" in sweep.settings else ", 'killed'"
    runs = select(db, RunRow, "WHERE sweep_id = ?", sweep.id)
    failed = select(
        db,
        RunRow,
        "WHERE sweep_id = ? AND args IS NOT NULL AND queued = 0"
        f" AND state IN ('failed', 'crashed'{early})",
        sweep.id,
    )
    waiting = sum(run.queued for run in runs) if sweep.ended else 0
    counted = sum(run.ordinal is not None for run in runs)
    unseen = max(0, (sweep.expected or 0) - counted) if sweep.ended else 0
    missing = len(failed) + waiting + unseen
    if missing:
        for run in failed:
            forgiven = run.forgiven + count_failures(db, run)
            update(db, run, state="preempted", queued=1, forgiven=forgiven)
        update_sweep(db, sweep, backend.now(), state="RUNNING", stop_reason=None)
    return missing


# Reports of supervisors about the ends of their runs' processes. For a run that ended before
# `wandb.init`, only the supervisor knows its exit code and output.


def note_exit(
    backend: Backend,
    db: Connection,
    run: RunRow,
    agent_name: str,
    seconds_ago: float,
    exit_code: int | None,
    output: str | None,
) -> None:
    """Record how a run's process ended, in the attempt that this agent had `seconds_ago`.

    After a late report, the attempt is judged again, unless the next one has begun. The output of a
    run before `wandb.init` becomes its console until it starts again.
    """
    attempt = find_attempt(db, run, agent_name, backend.now() - max(0.0, seconds_ago))
    if attempt is None:
        return
    output = output[-MAX_OUTPUT_CHARACTERS:] if output else None
    note_process_end(db, attempt, exit_code, output)
    if output and attempt.number == run.attempt and run.started_at is None:
        clear_lines(db, run.id, "output")
        write_lines(db, run.id, "output", 0, output.splitlines())
    if attempt.number == run.attempt and attempt.cause == "never started" and run.queued:
        reopen_attempt(db, run)  # judge it again with the new information
        end_run(backend, db, run, Outcome("failed", "never started"))


def note_leave(backend: Backend, db: Connection, caller: Caller) -> None:
    """Mark a key's agent as ended, as its supervisor reported; a heartbeat reverts that."""
    assert caller.sweep_id is not None
    assert caller.agent_name is not None
    end_agents(db, caller.sweep_id, caller.agent_name, backend.now())
