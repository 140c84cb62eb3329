"""Changes of an existing sweep, and warnings about its configuration.

Agents see changes at their next heartbeat. The file stream's reply asks runs to stop, which lets
them flush; an agent later kills a run that ignores it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deployer.backend.db.rows import Connection, get, select, update
from deployer.backend.db.runs import RunRow, insert_enqueued
from deployer.backend.db.sweeps import DELETED, KNOWN_CONFIGS, SweepRow, parse_config, update_sweep
from deployer.backend.request import Refusal, parse_object
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.numbering import grid_place, place_of, renumber
from deployer.backend.scheduling.run_endings import end_waiting
from deployer.backend.scheduling.search import find_missing_package, refusals
from deployer.errors import Finding
from deployer.sweeps.keys import Key
from deployer.sweeps.rules import check_content, has_local_scheduler

# Keys that only this server supports, not W&B.
OWN_KEYS = {
    "seed": Key("integer"),
    "retries": Key("integer"),
}
LOCAL_CONTROLLER = (
    "this server chooses the configurations itself and serves no local controller: leave out"
    " `controller`, or let `wandb sweep-scheduler` choose them"
)
_warnings: dict[str, list[str]] = {}  # cached for recent configurations


def change_sweep(backend: Backend, db: Connection, sweep: SweepRow, **changes: Any) -> SweepRow:
    now = backend.now()
    changed = update_sweep(db, sweep, now, **changes)
    if changes.get("state") == "CANCELED":
        stop_runs(backend, db, changed)
    if changed.ended:
        end_waiting(backend, db, changed)
    if "config" in changes:
        renumber(db, changed)
    return get(db, SweepRow, sweep.id)


def stop_runs(backend: Backend, db: Connection, sweep: SweepRow) -> None:
    active = "sweep_id = ? AND state IN ('pending', 'running', 'preempting')"
    for run in select(db, RunRow, f"WHERE {active} AND stop_requested_at IS NULL", sweep.id):
        update(db, run, stop_requested_at=backend.now())


def delete_sweep(backend: Backend, db: Connection, sweep: SweepRow) -> None:
    """Hide a sweep permanently; its runs stay in the project, active ones are asked to stop.

    The row stays, since the keys of its agents are valid until their runs have ended.
    """
    stop_runs(backend, db, sweep)
    end_waiting(backend, db, update_sweep(db, sweep, backend.now(), state=DELETED))
    for run in select(db, RunRow, "WHERE sweep_id = ?", sweep.id):
        if not run.active:
            update(db, run, sweep_id=None, ordinal=None, queued=0)


def enqueue_run(
    backend: Backend, db: Connection, sweep: SweepRow, config: str, display_name: str | None
) -> RunRow:
    """Add a run with a given configuration, which the next free agent gets.

    `config` is JSON, {name: {"value": value}} like a run's, or {name: value}.
    """
    if sweep.ended:
        raise Refusal(400, f"sweep {sweep.name} is {sweep.state}: it accepts no more runs")
    args = _plain_values(config)
    ordinal = place_of(db, sweep, args)
    return insert_enqueued(db, sweep, ordinal, args, display_name, backend.now())


def adopt_prior_runs(db: Connection, sweep: SweepRow, runs: Sequence[RunRow]) -> None:
    """Add runs without a sweep to this sweep, as prior results.

    Runs of another sweep stay there. A finished run takes its ordinal in a grid.
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


class Unread(Exception):
    """A configuration that must be read outside of the writer, which must not wait."""

    def __init__(self, config: str) -> None:
        super().__init__("a sweep's configuration has not been read yet")
        self.config = config


def is_read(config: str) -> bool:
    return config in _warnings


def read_config(config: str) -> list[str]:
    """Return the warnings of a configuration; refuse one that allows no runs with 400."""
    if config not in _warnings:
        _check_supported(parse_config(config))
        while len(_warnings) >= KNOWN_CONFIGS:
            _warnings.pop(next(iter(_warnings)), None)
        _warnings[config] = list_warnings(parse_config(config))
    return _warnings[config]


def _check_supported(settings: dict[str, Any]) -> None:
    if has_local_scheduler(settings):
        return  # its own scheduler chooses the configurations
    problems = refusals(settings)
    controller = settings.get("controller")
    if isinstance(controller, dict) and controller.get("type") == "local":
        problems.append(LOCAL_CONTROLLER)
    missing = find_missing_package() if settings.get("method") == "bayes" else None
    if missing:
        problems.append(missing)
    if problems:
        raise Refusal(400, "; ".join(problems))


def list_warnings(settings: dict[str, Any]) -> list[str]:
    """Return one sentence for each warning, for W&B's `configValidationWarnings`."""
    return [_worded(found) for found in check_content(settings, OWN_KEYS)]


def _worded(found: Finding) -> str:
    hint = f" ({found.fix})" if found.fix else ""
    return f"{found.key}: {found.message}{hint}"
