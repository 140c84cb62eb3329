"""Stops the runs that a sweep's `early_terminate` rule judges to be poor."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

from deployer.backend.db.lines import read_lines
from deployer.backend.db.rows import Connection, get, select, update
from deployer.backend.db.runs import Mark, Run, changed_since, mark_of
from deployer.backend.db.sweeps import Sweep
from deployer.backend.parsing import read_object
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.search.hyperband import Halving
from deployer.sweeps.metrics import metric_value

COLUMNS = "id, state, attempt, started_at, stop_requested_at"


@dataclass
class _Watched:
    """A sweep as of its last change that was seen.

    `candidates` are the runs that may still be asked to stop; of each run `begun` says which
    history was read, since a run may begin it anew, also within an attempt.
    """

    config: str
    halving: Halving
    mark: Mark
    begun: dict[int, tuple[int, float | None]] = field(default_factory=dict)
    next_line: dict[int, int] = field(default_factory=dict)
    candidates: set[int] = field(default_factory=set)


class EarlyTermination:
    """Remembers how far each run is, and reads what those that have changed have logged since."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._watched: dict[int, _Watched] = {}

    def stop_poor_runs(self) -> None:
        """Ask poor runs of all running sweeps to stop; called every few seconds."""
        with self._backend.store.snapshot() as db:
            running = "WHERE state = 'RUNNING' AND config LIKE '%early_terminate%'"
            sweeps = {sweep.id: sweep for sweep in select(db, Sweep, running)}
            poor = [run for sweep in sweeps.values() for run in self._find(db, sweep)]
        self._watched = {n: one for n, one in self._watched.items() if n in sweeps}
        if not poor:
            return
        with self._backend.store.transaction() as db:
            for run in (get(db, Run, number) for number in poor):
                if run.stop_requested_at is None:
                    update(db, run, stop_requested_at=self._backend.now())

    def _find(self, db: Connection, sweep: Sweep) -> Iterable[int]:
        """Return the runs of a sweep that are poor and were not asked yet."""
        if sweep.metric_name is None:
            return []
        mark, watched = mark_of(db, sweep.id), self._watched.get(sweep.id)
        if watched is None or (watched.config, watched.mark.removals) != (
            sweep.config,
            mark.removals,
        ):
            watched = _Watched(sweep.config, Halving(sweep.settings), Mark(-1, mark.removals))
            self._watched[sweep.id] = watched
        for row in changed_since(db, sweep.id, watched.mark.revision, COLUMNS):
            _read_on(db, watched, row, sweep.metric_name)
        watched.mark = mark
        return sorted(run for run in watched.candidates if watched.halving.is_poor(run))


def _read_on(db: Connection, watched: _Watched, row: sqlite3.Row, metric: str) -> None:
    """Take up a run's state, and what it has logged since it was read last."""
    run, begun = row["id"], (row["attempt"], row["started_at"])
    if watched.begun.get(run) != begun:
        watched.halving.forget(run)
        watched.begun[run], watched.next_line[run] = begun, 0
    lines = read_lines(db, run, "history", watched.next_line[run])
    values = (metric_value(read_object(text) or {}, metric) for _, text in lines)
    watched.halving.add(run, [value for value in values if value is not None])
    if lines:
        watched.next_line[run] = lines[-1][0] + 1
    if row["state"] == "running" and row["stop_requested_at"] is None:
        watched.candidates.add(run)
    else:
        watched.candidates.discard(run)
