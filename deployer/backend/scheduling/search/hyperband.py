"""Early termination by successive halving, as W&B does it; pure.

Source: `hyperband_stopping.py` of W&B's MIT-licensed package `sweeps`, after Li et al.,
"Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization" (arXiv 1603.06560).
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deployer.sweeps.metrics import metric_goal

# W&B computes this many bands upwards from min_iter.
BANDS = 100
DEFAULT_ETA = 3.0


@dataclass
class _Standing:
    """How far a run is: its finite values, the best of them, and those at the bands it reached."""

    count: int = 0
    best: float = math.inf
    reached: list[float] = field(default_factory=list)


class Halving:
    """The bands of one sweep, told what runs log as they log it.

    An iteration is one logged finite value of the metric, not a step or an epoch. Without
    `strict` a run's best value so far is compared, with it the value at the band. Without
    `early_terminate`, or with one that is not understood, no run is poor.
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
        """Note what a run has logged next."""
        standing = self._standings[run]
        for value in (self._sign * value for value in values if math.isfinite(value)):
            standing.count += 1
            standing.best = min(standing.best, value)
            band = len(standing.reached)
            if band < len(self._bands) and standing.count == self._bands[band]:
                standing.reached.append(value)
                insort(self._at_band[band], value)

    def forget(self, run: Hashable) -> None:
        """Take back what a run had logged."""
        for values, value in zip(
            self._at_band, self._standings.pop(run, _Standing()).reached, strict=False
        ):
            del values[bisect_left(values, value)]

    def is_poor(self, run: Hashable) -> bool:
        """Tell whether a run is worse than the rest at the last band it reached."""
        standing = self._standings[run]
        if not standing.reached:
            return False
        rivals = self._at_band[len(standing.reached) - 1]
        strict = self._settings.get("strict") is True
        counted = standing.reached[-1] if strict else standing.best
        return counted > rivals[int(len(rivals) / self._eta)]


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


def _number(settings: Mapping[str, Any], key: str, default: float) -> float:
    value = settings.get(key, default)
    usable = type(value) in (int, float) and math.isfinite(value)
    return float(value) if usable else default
