"""How good each value is among the others, for bars and colours; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import quantiles

from deployer.analysis.moments import largest, place_between

# A value further out than so many interquartile ranges would leave all others alike: Tukey's fence.
FENCE = 3.0
LARGE = 2.0**1000


def rate_values(values: Sequence[float | None], goal: str) -> list[float | None]:
    """Return 1 for the best value, 0 for the worst, and what lies between in proportion.

    The worst is at the fence of the others if it is far out. None for what is not finite.
    """
    sign = 1.0 if goal == "maximize" else -1.0
    known = [v for v in values if v is not None and math.isfinite(v)]
    if not known:
        return [None] * len(values)
    if largest(known) > LARGE:
        sign /= LARGE  # so that no difference overflows
    finite = [sign * v for v in known]
    most, least = max(finite), min(finite)
    if len(finite) > 3:
        low, _, high = quantiles(finite, method="inclusive")
        least = max(least, low - FENCE * (high - low)) if high > low else least
    return [_rate(v, sign, least, most) for v in values]


def _rate(value: float | None, sign: float, least: float, most: float) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return place_between(sign * value, least, most)
