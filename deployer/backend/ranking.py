"""The best value that a sweep's runs have reached."""

from __future__ import annotations

import math
from collections.abc import Sequence

from deployer.backend.lines import parse_row
from deployer.backend.runs import Run
from deployer.backend.sweeps import Sweep
from deployer.metrics import metric_value


def best_metric(sweep: Sweep, runs: Sequence[Run]) -> float | None:
    """Return the best finite value of the sweep's metric, or None."""
    name = sweep.metric_name
    if name is None:
        return None
    found = [metric_value(parse_row(run.summary) or {}, name) for run in runs]
    values = [value for value in found if value is not None and math.isfinite(value)]
    if not values:
        return None
    return max(values) if sweep.metric_goal == "maximize" else min(values)
