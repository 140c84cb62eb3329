"""One value of a run from its history: the last, the best, or the mean of the last ones; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from deployer.analysis.moments import mean


class Taken(StrEnum):
    """Which value of a history counts."""

    LAST = "last"
    BEST = "best"
    MEAN = "mean"


@dataclass(frozen=True)
class Reduction:
    """How a history becomes one value; `count` is K of the mean of the last K values."""

    taken: Taken
    count: int = 1

    def __str__(self) -> str:
        return f"{self.taken}:{self.count}" if self.taken is Taken.MEAN else str(self.taken)


def parse_reduction(text: str) -> Reduction:
    """Read `last`, `best` or `mean:K` with K of 1 or more; raises ValueError."""
    word, colon, number = text.partition(":")
    if word == Taken.MEAN and number.isdecimal() and int(number) > 0:
        return Reduction(Taken.MEAN, int(number))
    if not colon and word in (Taken.LAST, Taken.BEST):
        return Reduction(Taken(word))
    raise ValueError(f"'{text}' is none of last, best and mean:K")


def reduce_values(values: Sequence[float], reduction: Reduction, goal: str) -> float | None:
    """Return one value of a run's history, in the order in which it was logged; None if empty.

    The best is that of the finite values. A mean is of as many as there are, up to K, and NaN if
    one of them is.
    """
    if not values:
        return None
    if reduction.taken is Taken.BEST:
        finite = [value for value in values if math.isfinite(value)]
        choose = max if goal == "maximize" else min
        return choose(finite) if finite else values[-1]
    return mean(values[-reduction.count :])
