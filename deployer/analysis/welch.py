"""Welch's t-test with the standard library alone; pure.

Welch, "The generalization of Student's problem when several different population variances are
involved", Biometrika 34 (1947); the degrees of freedom are Satterthwaite's (1946).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

from deployer.analysis.moments import largest

PIECES = 400  # of Simpson's rule: an error far below what a p-value is shown with


def compare_means(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sided p-value of equal means; each sample has two values or more."""
    unit = max(largest(one), largest(other)) or 1.0  # so that no square overflows or vanishes
    one, other = ([value / unit for value in sample] for sample in (one, other))
    parts = [variance(sample) / len(sample) for sample in (one, other)]
    difference = abs(fmean(one) - fmean(other))
    spread = math.sqrt(sum(parts))
    if not spread:
        return 0.0 if difference else 1.0
    counts = (len(one), len(other))
    shares = [part / sum(parts) for part in parts]
    freedom = 1 / sum(share**2 / (n - 1) for share, n in zip(shares, counts, strict=True))
    return 1 - _probability_within(difference / spread, freedom)


def _probability_within(t: float, freedom: float) -> float:
    """Return P(-t < T < t) of Student's distribution, as an integral over an angle.

    With T = sqrt(freedom)·tan(angle) its density is proportional to cos(angle)**(freedom - 1).
    """
    end = math.atan(t / math.sqrt(freedom))
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    width = end / PIECES
    total = 0.0
    for piece in range(PIECES + 1):
        weight = 1 if piece in (0, PIECES) else 4 if piece % 2 else 2
        total += weight * math.cos(piece * width) ** (freedom - 1)
    return min(1.0, 2 * math.exp(scale) / math.sqrt(math.pi) * total * width / 3)
