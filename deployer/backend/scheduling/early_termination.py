"""Stops the runs that a sweep's `early_terminate` rule judges to be poor."""

from __future__ import annotations

from functools import partial

from deployer.backend.db.database import Connection, select
from deployer.backend.db.lines import parse_row, read_lines
from deployer.backend.db.runs import Run, change_run, list_runs, run_by_id
from deployer.backend.db.sweeps import Sweep
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.search.hyperband import WrittenRun, runs_to_stop
from deployer.sweeps.metrics import metric_value


class EarlyTermination:
    """Remembers what each run has logged of its sweep's metric, so that only new lines are read."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # A run may begin its history anew, also within an attempt.
        self._values: dict[tuple[int, int, float | None], list[float]] = {}
        self._next_line: dict[tuple[int, int, float | None], int] = {}

    def stop_poor_runs(self) -> None:
        """Ask poor runs of all running sweeps to stop; called every few seconds."""
        with self._backend.store.snapshot() as db:
            running = "sweeps WHERE state = 'RUNNING' AND config LIKE '%early_terminate%'"
            poor = [run.id for sweep in select(db, Sweep, running) for run in self._find(db, sweep)]
        if not poor:
            return
        with self._backend.store.transaction() as db:
            for run in map(partial(run_by_id, db), poor):
                if run.stop_requested_at is None:
                    change_run(db, run, stop_requested_at=self._backend.now())

    def _find(self, db: Connection, sweep: Sweep) -> list[Run]:
        """Return the runs of a sweep that are poor and were not asked yet."""
        if sweep.metric_name is None:
            return []
        runs = list_runs(db, "sweep_id = ? ORDER BY id", sweep.id)
        written = [
            WrittenRun(run.name, run.state, self._logged(db, run, sweep.metric_name))
            for run in runs
        ]
        poor = set(runs_to_stop(sweep.settings, written))
        return [run for run in runs if run.name in poor and run.stop_requested_at is None]

    def _logged(self, db: Connection, run: Run, metric: str) -> list[float]:
        key = (run.id, run.attempt, run.started_at)
        values = self._values.setdefault(key, [])
        for number, text in read_lines(db, run.id, "history", self._next_line.get(key, 0)):
            value = metric_value(parse_row(text) or {}, metric)
            if value is not None:
                values.append(value)
            self._next_line[key] = number + 1
        return values
