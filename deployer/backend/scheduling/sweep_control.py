"""Changes of an existing sweep: end it, edit it, add runs, delete it.

Agents see it at their next heartbeat. Runs are asked to stop by the file stream's reply, which
lets them flush; whoever does not heed it is killed later by its agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deployer.backend.db.rows import Connection, get, select, update
from deployer.backend.db.runs import Run, insert_enqueued
from deployer.backend.db.sweeps import DELETED, Sweep, update_sweep
from deployer.backend.parsing import parse_object
from deployer.backend.refusal import Refusal
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.numbering import grid_place, place_of, renumber
from deployer.backend.scheduling.run_endings import end_waiting


def change_sweep(backend: Backend, db: Connection, sweep: Sweep, **changes: Any) -> Sweep:
    """Set columns of a sweep, with what follows for its runs."""
    now = backend.now()
    changed = update_sweep(db, sweep, now, **changes)
    if changes.get("state") == "CANCELED":
        stop_runs(backend, db, changed)
    if changed.ended:
        end_waiting(backend, db, changed)
    if "config" in changes:
        renumber(db, changed)
    return get(db, Sweep, sweep.id)


def stop_runs(backend: Backend, db: Connection, sweep: Sweep) -> None:
    """Ask a sweep's runs to stop."""
    active = "sweep_id = ? AND state IN ('pending', 'running', 'preempting')"
    for run in select(db, Run, f"WHERE {active} AND stop_requested_at IS NULL", sweep.id):
        update(db, run, stop_requested_at=backend.now())


def delete_sweep(backend: Backend, db: Connection, sweep: Sweep) -> None:
    """Hide a sweep for good; its runs stay in the project and those at work are asked to stop.

    The row stays, since the keys of its agents are good until their runs have ended.
    """
    stop_runs(backend, db, sweep)
    end_waiting(backend, db, update_sweep(db, sweep, backend.now(), state=DELETED))
    for run in select(db, Run, "WHERE sweep_id = ?", sweep.id):
        if not run.active:
            update(db, run, sweep_id=None, ordinal=None, queued=0)


def enqueue_run(
    backend: Backend, db: Connection, sweep: Sweep, config: str, display_name: str | None
) -> Run:
    """Add a run with a given configuration, which the next free agent gets.

    `config` is JSON, {name: {"value": value}} as a run's or {name: value}.
    """
    if sweep.ended:
        raise Refusal(400, f"sweep {sweep.name} is {sweep.state}: it takes no more runs")
    args = _plain_values(config)
    ordinal = place_of(db, sweep, args)
    return insert_enqueued(db, sweep, ordinal, args, display_name, backend.now())


def adopt_prior_runs(db: Connection, sweep: Sweep, runs: Sequence[Run]) -> None:
    """Make runs of no sweep part of one that they tell something about.

    Those of another sweep stay there. A finished one takes its place in a grid.
    """
    for run in runs:
        if run.sweep_id is None:
            finished = sweep.method == "grid" and run.state == "finished"
            ordinal = grid_place(db, sweep, run.arguments) if finished else None
            update(db, run, sweep_id=sweep.id, ordinal=ordinal)


def _plain_values(text: str) -> dict[str, Any]:
    config = parse_object(text, "a run's configuration")
    return {name: _plain_value(value) for name, value in config.items()}


def _plain_value(value: Any) -> Any:
    wrapped = isinstance(value, dict) and "value" in value and set(value) <= {"value", "desc"}
    return value["value"] if wrapped else value
