"""The best value that a sweep's runs have reached."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable

from deployer.backend.db.sweeps import Sweep
from deployer.backend.parsing import read_object
from deployer.sweeps.metrics import metric_value, rank_key


def read_metric(sweep: Sweep, row: sqlite3.Row) -> float | None:
    """Return the sweep's metric from the summary in a run's row."""
    name = sweep.metric_name
    return (
        metric_value(read_object(row["summary"]) or {}, name, sweep.metric_goal) if name else None
    )


def best_metric(sweep: Sweep, values: Iterable[float | None]) -> float | None:
    """Return the best finite value of the sweep's metric, or None."""
    best = min(values, key=lambda value: rank_key(value, sweep.metric_goal), default=None)
    return best if best is not None and math.isfinite(best) else None
