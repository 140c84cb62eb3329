"""How good values are, for bars and colours."""

from __future__ import annotations

import math

from deployer.analysis.goodness import rate_values


def test_best_is_one_and_worst_is_zero() -> None:
    assert rate_values([1.0, 2.0, 3.0], "minimize") == [1.0, 0.5, 0.0]
    assert rate_values([1.0, 2.0, 3.0], "maximize") == [0.0, 0.5, 1.0]


def test_one_that_is_far_out_leaves_the_others_apart() -> None:
    *rates, worst = rate_values([1.0, 1.1, 1.2, 1.3, 1.4, 1e6], "minimize")
    assert worst == 0.0
    assert rates == sorted(rates, reverse=True)
    assert (rates[0] or 0) - (rates[-1] or 0) > 0.2


def test_what_is_not_finite_has_none() -> None:
    assert rate_values([math.nan, None, 2.0], "minimize") == [None, None, 1.0]
    assert rate_values([], "minimize") == []
