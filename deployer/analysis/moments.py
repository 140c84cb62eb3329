"""Means and deviations of values up to the largest floats; pure.

Their sums and squares overflow, so values are then divided by the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev


def mean(values: Sequence[float]) -> float:
    """Return the mean; NaN if a value is, or with infinities of both signs."""
    try:
        return fmean(values)
    except OverflowError:
        unit = largest(values)
        return unit * fmean(value / unit for value in values)
    except ValueError:  # infinities of both signs
        return math.nan


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of at least two finite values; infinite on overflow."""
    try:
        return stdev(values)
    except OverflowError:
        unit = largest(values)
        return unit * stdev([value / unit for value in values])


def largest(values: Sequence[float]) -> float:
    return max(map(abs, values))
