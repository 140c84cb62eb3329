"""Hyperband: which runs of a sweep to stop early, and when."""

from __future__ import annotations

import math
import sqlite3
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deployer.backend.db.lines import read_lines
from deployer.backend.db.rows import Connection, get, select, update
from deployer.backend.db.runs import Mark, RunRow, changed_since, mark_of
from deployer.backend.db.sweeps import SweepRow
from deployer.backend.request import read_object
from deployer.backend.scheduling.context import Backend
from deployer.sweeps.results import metric_goal, metric_value

# W&B computes this many bands upwards from min_iter.
BANDS = 100
DEFAULT_ETA = 3.0
COLUMNS = "id, state, attempt, started_at, stop_requested_at"


# Early termination by successive halving, like W&B's; pure. Source: `hyperband_stopping.py` of
# W&B's MIT-licensed package `sweeps`, after Li et al., "Hyperband: A Novel Bandit-Based Approach to
# Hyperparameter Optimization" (arXiv 1603.06560).


@dataclass
class _Standing:
    """A run's progress: its finite values, the best one, and those at the reached bands."""

    count: int = 0
    best: float = math.inf
    reached: list[float] = field(default_factory=list)


class Halving:
    """The bands of one sweep, updated with the values that runs log.

    An iteration is one logged finite value of the metric, not a step or an epoch. Compares a run's
    best value so far, or with `strict` its value at the band. Without a valid `early_terminate`, no
    run is poor.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = config.get("early_terminate")
        known = isinstance(settings, Mapping) and settings.get("type") == "hyperband"
        self._settings: Mapping[str, Any] = settings if known and settings else {}
        self._bands = band_iterations(self._settings)
        self._eta = _number(self._settings, "eta", DEFAULT_ETA)
        self._sign = -1.0 if metric_goal(config) == "maximize" else 1.0
        self._standings: defaultdict[Hashable, _Standing] = defaultdict(_Standing)
        self._at_band: list[list[float]] = [[] for _ in self._bands]  # each sorted

    def add(self, run: Hashable, values: Iterable[float]) -> None:
        standing = self._standings[run]
        for value in (self._sign * value for value in values if math.isfinite(value)):
            standing.count += 1
            standing.best = min(standing.best, value)
            band = len(standing.reached)
            if band < len(self._bands) and standing.count == self._bands[band]:
                standing.reached.append(value)
                insort(self._at_band[band], value)

    def forget(self, run: Hashable) -> None:
        for values, value in zip(
            self._at_band, self._standings.pop(run, _Standing()).reached, strict=False
        ):
            del values[bisect_left(values, value)]

    def is_poor(self, run: Hashable) -> bool:
        """Return True if a run is worse than the best 1/eta of runs at its last band."""
        standing = self._standings[run]
        if not standing.reached:
            return False
        rivals = self._at_band[len(standing.reached) - 1]
        strict = self._settings.get("strict") is True
        counted = standing.reached[-1] if strict else standing.best
        return counted > rivals[int(len(rivals) / self._eta)]


def band_iterations(settings: Mapping[str, Any]) -> list[int]:
    """Return the iterations at which to compare runs, ascending; empty if not configured."""
    eta = _number(settings, "eta", DEFAULT_ETA)
    if eta <= 1:
        return []
    if "max_iter" in settings and "s" in settings:
        steps = range(1, int(_number(settings, "s", 0)) + 1)
        bands = [_number(settings, "max_iter", 0) / eta**i for i in steps]
        return sorted({int(band) for band in bands if band >= 1})
    start = _number(settings, "min_iter", 0)
    return sorted({int(start * eta**i) for i in range(BANDS)}) if start >= 1 else []


def _number(settings: Mapping[str, Any], key: str, default: float) -> float:
    value = settings.get(key, default)
    usable = type(value) in (int, float) and math.isfinite(value)
    return float(value) if usable else default


@dataclass
class _Watched:
    """A sweep's state at the last poll.

    `candidates` are the runs that may still be asked to stop. `begun` identifies the history that
    was read of each run, since a run may restart its history, even within an attempt.
    """

    config: str
    halving: Halving
    mark: Mark
    begun: dict[int, tuple[int, float | None]] = field(default_factory=dict)
    next_line: dict[int, int] = field(default_factory=dict)
    candidates: set[int] = field(default_factory=set)


class EarlyTermination:
    """Tracks the progress of runs; reads only the new lines of changed runs."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._watched: dict[int, _Watched] = {}

    def stop_poor_runs(self) -> None:
        """Ask poor runs of all running sweeps to stop; called every few seconds."""
        with self._backend.store.snapshot() as db:
            running = "WHERE state = 'RUNNING' AND config LIKE '%early_terminate%'"
            sweeps = {sweep.id: sweep for sweep in select(db, SweepRow, running)}
            poor = [run for sweep in sweeps.values() for run in self._find(db, sweep)]
        self._watched = {n: one for n, one in self._watched.items() if n in sweeps}
        if not poor:
            return
        with self._backend.store.transaction() as db:
            for run in (get(db, RunRow, number) for number in poor):
                if run.stop_requested_at is None:
                    update(db, run, stop_requested_at=self._backend.now())

    def _find(self, db: Connection, sweep: SweepRow) -> Iterable[int]:
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
    """Update a run's state, and read the lines that it has logged since the last poll."""
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
