"""Early termination by successive halving, as W&B does it; pure.

Source: `hyperband_stopping.py` of W&B's MIT-licensed package `sweeps`, after Li et al.,
"Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization" (arXiv 1603.06560).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.sweeps.metrics import metric_goal

# W&B computes this many bands upwards from min_iter.
BANDS = 100
DEFAULT_ETA = 3.0


@dataclass(frozen=True)
class WrittenRun:
    """A run's id, its state in W&B's words, and every value of the metric that it logged."""

    run_id: str
    state: str
    history: Sequence[float]


def runs_to_stop(config: Mapping[str, Any], runs: Sequence[WrittenRun]) -> list[str]:
    """Return the ids of running runs that are worse than the rest at the last band they reached.

    An iteration is one logged finite value of the metric, not a step or an epoch. Without
    `strict` a run's best value so far is compared, with it the value at the band. Without
    `early_terminate`, or with one that is not understood, nothing is stopped.
    """
    settings = config.get("early_terminate")
    if not isinstance(settings, Mapping) or settings.get("type") != "hyperband":
        return []
    bands = band_iterations(settings)
    eta = _number(settings, "eta", DEFAULT_ETA)
    sign = -1.0 if metric_goal(config) == "maximize" else 1.0
    histories = {r.run_id: [sign * v for v in r.history if math.isfinite(v)] for r in runs}
    thresholds = {band: _threshold(list(histories.values()), band, eta) for band in bands}
    stopped = []
    for run in runs:
        values = histories[run.run_id]
        reached = [band for band in bands if band <= len(values)]
        if run.state != "running" or not reached:
            continue
        counted = values[reached[-1] - 1] if settings.get("strict") is True else min(values)
        if counted > thresholds[reached[-1]]:
            stopped.append(run.run_id)
    return stopped


def band_iterations(settings: Mapping[str, Any]) -> list[int]:
    """Return the iterations at which runs are compared, ascending; none if they are not given."""
    eta = _number(settings, "eta", DEFAULT_ETA)
    if eta <= 1:
        return []
    if "max_iter" in settings and "s" in settings:
        steps = range(1, int(_number(settings, "s", 0)) + 1)
        bands = [_number(settings, "max_iter", 0) / eta**i for i in steps]
        return sorted({int(band) for band in bands if band >= 1})
    start = _number(settings, "min_iter", 0)
    return sorted({int(start * eta**i) for i in range(BANDS)}) if start >= 1 else []


def _threshold(histories: Sequence[Sequence[float]], band: int, eta: float) -> float:
    at_band = sorted(values[band - 1] for values in histories if len(values) >= band)
    return at_band[int(len(at_band) / eta)] if at_band else math.inf


def _number(settings: Mapping[str, Any], key: str, default: float) -> float:
    value = settings.get(key, default)
    usable = type(value) in (int, float) and math.isfinite(value)
    return float(value) if usable else default
