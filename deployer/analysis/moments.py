"""Means and spreads of values as large as floats can be; pure.

Sums and squares of them overflow: values are then taken in units of the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev


def mean(values: Sequence[float]) -> float:
    """Return the mean; NaN where one is, or where infinities of both signs are."""
    try:
        return fmean(values)
    except OverflowError:
        unit = largest(values)
        return unit * fmean(value / unit for value in values)
    except ValueError:  # infinities of both signs
        return math.nan


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of two finite values or more; infinite where no float is."""
    try:
        return stdev(values)
    except OverflowError:
        unit = largest(values)
        return unit * stdev([value / unit for value in values])


def largest(values: Sequence[float]) -> float:
    return max(map(abs, values))
