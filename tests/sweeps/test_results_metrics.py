"""Metrics out of summaries, and the order of good and bad values."""

from __future__ import annotations

import math
from typing import Any

import pytest

from deployer.sweeps.results import metric_value, rank_key


@pytest.mark.parametrize(
    ("summary", "name", "value"),
    [
        ({"loss": 1}, "loss", 1.0),
        ({"loss": True}, "loss", None),
        ({"loss": "low"}, "loss", None),
        ({"loss": None}, "loss", None),
        ({}, "loss", None),
        ({"loss": "Infinity"}, "loss", math.inf),
        ({"val": {"loss": 2}}, "val.loss", 2.0),
        ({"val.loss": 3, "val": {"loss": 2}}, "val.loss", 3.0),
        ({"a.b": {"c": 4}}, "a.b.c", 4.0),
        ({"loss": {"min": 1, "max": 5}}, "loss", 1.0),
        ({"loss": {"min": 1, "max": 5}}, "loss.max", 5.0),
        ({"loss": {"last": 2, "mean": 3}}, "loss", 2.0),
        ({"val": 1}, "val.loss", None),
    ],
)
def test_metric_value(summary: dict[str, Any], name: str, value: float | None) -> None:
    assert metric_value(summary, name) == value


def test_the_aggregate_follows_the_goal() -> None:
    assert metric_value({"acc": {"min": 1, "max": 5}}, "acc", "maximize") == 5.0


def test_written_nan_is_a_nan() -> None:
    assert math.isnan(metric_value({"loss": "NaN"}, "loss") or 0.0)


@pytest.mark.parametrize(("goal", "order"), [("minimize", [-2, 1, 3]), ("maximize", [3, 1, -2])])
def test_the_best_comes_first_and_no_number_last(goal: str, order: list[float]) -> None:
    values = [math.nan, 1, None, 3, -math.inf, -2, math.inf]
    ranked = sorted(values, key=lambda value: rank_key(value, goal))
    assert ranked[:3] == order
