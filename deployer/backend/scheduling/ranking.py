"""The best value that a sweep's runs have reached."""

from __future__ import annotations

import math
from collections.abc import Sequence

from deployer.backend.db.lines import parse_row
from deployer.backend.db.runs import Run
from deployer.backend.db.sweeps import Sweep
from deployer.sweeps.metrics import metric_value, rank_key


def best_metric(sweep: Sweep, runs: Sequence[Run]) -> float | None:
    """Return the best finite value of the sweep's metric, or None."""
    name = sweep.metric_name
    if name is None:
        return None
    goal = sweep.metric_goal
    found = [metric_value(parse_row(run.summary) or {}, name, goal) for run in runs]
    best = min(found, key=lambda value: rank_key(value, goal), default=None)
    return best if best is not None and math.isfinite(best) else None
