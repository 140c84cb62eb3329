"""How runs and sweeps end: the changes that follow from `lifecycle`'s judgement."""

from __future__ import annotations

from deployer.backend.context import Backend
from deployer.backend.lifecycle import Outcome, judge_disappearance
from deployer.backend.lines import parse_row
from deployer.backend.runs import Run, change_run, list_runs, settle_attempt
from deployer.backend.store import Connection
from deployer.backend.sweeps import Sweep, sweep_by_id, update_sweep
from deployer.metrics import metric_value


def end_run(
    backend: Backend, db: Connection, run: Run, outcome: Outcome, exit_code: int | None = None
) -> Run:
    """Write down how a run's attempt ended, and end the sweep if this was its last."""
    now = backend.now()
    settle_attempt(db, run, outcome.cause, exit_code, now)
    ended = change_run(
        db,
        run,
        state=outcome.state,
        queued=int(outcome.queued),
        exit_code=exit_code,
        ended_at=now,
        vanished_at=None,
    )
    if run.sweep_id:
        finish_if_complete(backend, db, sweep_by_id(db, run.sweep_id))
    return ended


def abandon_run(backend: Backend, db: Connection, run: Run) -> Run:
    """End a run that left no exit record."""
    outcome = judge_disappearance(
        bool(run.started_at), bool(run.preempting), run.stop_requested_at is not None
    )
    if run.sweep_id is None:
        outcome = Outcome(outcome.state, outcome.cause)
    return end_run(backend, db, run, outcome)


def finish_if_complete(backend: Backend, db: Connection, sweep: Sweep) -> Sweep:
    """Set a sweep to FINISHED once every expected configuration has come to its end."""
    if sweep.ended or sweep.expected is None:
        return sweep
    settled = db.execute(
        "SELECT COUNT(*) FROM runs WHERE sweep_id = ? AND queued = 0"
        " AND state NOT IN ('pending', 'running', 'preempting')",
        (sweep.id,),
    ).fetchone()[0]
    if settled < sweep.expected:
        return sweep
    return update_sweep(db, sweep, backend.now(), state="FINISHED")


def end_silent_runs(backend: Backend) -> None:
    """End runs of which nothing was heard for too long; called every few seconds."""
    with backend.store.transaction() as db:
        started = "started_at IS NOT NULL AND state IN ('running', 'preempting')"
        for run in list_runs(db, started):
            if backend.presence.silence_seconds("run", run.id) >= backend.patience.silence_seconds:
                abandon_run(backend, db, run)


def finish_if_target_reached(backend: Backend, db: Connection, run: Run) -> None:
    """End a sweep early once a run's summary has reached `metric.target`."""
    if run.sweep_id is None:
        return
    sweep = sweep_by_id(db, run.sweep_id)
    metric = sweep.settings.get("metric")
    if sweep.ended or not isinstance(metric, dict) or metric.get("target") is None:
        return
    value = metric_value(parse_row(run.summary) or {}, str(metric.get("name")))
    if value is None:
        return
    maximize = sweep.metric_goal == "maximize"
    if value >= metric["target"] if maximize else value <= metric["target"]:
        update_sweep(db, sweep, backend.now(), state="FINISHED")
