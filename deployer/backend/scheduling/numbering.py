"""Ordinals of a sweep's configurations, and the best value of its runs.

Each configuration has an ordinal: the n-th point of the grid, the n-th draw. A run without an
ordinal belongs to the sweep but does not count.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from deployer.backend.db.rows import Connection, select, update
from deployer.backend.db.runs import RunRow
from deployer.backend.db.sweeps import SweepRow
from deployer.backend.request import read_object
from deployer.sweeps.parameters import parse_parameters
from deployer.sweeps.results import metric_value, rank_key
from deployer.sweeps.space import Space

# The order of runs with the same configuration; the first one counts.
BEST_FIRST = (
    "CASE WHEN state = 'finished' THEN 0 WHEN state IN ('running', 'pending', 'preempting') THEN 1"
    " ELSE 2 END, id"
)


def renumber(db: Connection, sweep: SweepRow) -> None:
    """Give the runs of a changed grid their new ordinals.

    A run outside of the new grid stays in the sweep but does not count.
    """
    if sweep.method != "grid" or sweep.local_scheduler:
        return
    runs = select(db, RunRow, f"WHERE sweep_id = ? ORDER BY {BEST_FIRST}", sweep.id)
    db.execute("UPDATE runs SET ordinal = NULL WHERE sweep_id = ?", (sweep.id,))
    for run in runs:
        update(db, run, ordinal=grid_place(db, sweep, run.arguments))


def place_of(db: Connection, sweep: SweepRow, args: Mapping[str, Any]) -> int | None:
    """Return a configuration's ordinal in a sweep; None if it does not count.

    In a grid, that is its grid point unless another run has it; elsewhere the next free ordinal.
    """
    if sweep.method == "grid" and not sweep.local_scheduler:
        return grid_place(db, sweep, args)
    return free_ordinal(db, sweep)


def free_ordinal(db: Connection, sweep: SweepRow) -> int | None:
    ordinal = sweep.first_free
    while _is_taken(db, sweep, ordinal):
        ordinal += 1
    return None if sweep.expected is not None and ordinal >= sweep.expected else ordinal


def note_taken(db: Connection, sweep: SweepRow, ordinal: int) -> None:
    """Record that the lowest free ordinal is taken, so that searches start after it."""
    update(db, sweep, first_free=ordinal + 1)


def grid_place(db: Connection, sweep: SweepRow, args: Mapping[str, Any]) -> int | None:
    place = _space(sweep).grid_index(args)
    beyond = place is not None and sweep.expected is not None and place >= sweep.expected
    if place is None or beyond:
        return None
    return None if _is_taken(db, sweep, place) else place


def _is_taken(db: Connection, sweep: SweepRow, ordinal: int) -> bool:
    found = "SELECT 1 FROM runs WHERE sweep_id = ? AND ordinal = ?"
    return db.execute(found, (sweep.id, ordinal)).fetchone() is not None


def _space(sweep: SweepRow) -> Space:
    space, _ = parse_parameters(sweep.settings.get("parameters", {}))
    return space


def read_metric(sweep: SweepRow, row: sqlite3.Row) -> float | None:
    name = sweep.metric_name
    return (
        metric_value(read_object(row["summary"]) or {}, name, sweep.metric_goal) if name else None
    )


def best_metric(sweep: SweepRow, values: Iterable[float | None]) -> float | None:
    best = min(values, key=lambda value: rank_key(value, sweep.metric_goal), default=None)
    return best if best is not None and math.isfinite(best) else None
