"""A run's metric, read from its summary, and how values are ranked; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# How the SDK writes numbers that JSON does not have.
WRITTEN = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def metric_value(summary: Mapping[str, Any], name: str, goal: str = "minimize") -> float | None:
    """Return a metric from a summary, None if it is missing; it may be nan or infinite.

    `name` may lead inside by dots (`val.loss`). `define_metric(summary=…)` makes the value a
    mapping such as {"min": v}: taken is the aggregate that fits `goal`, then best, then last.
    """
    return _as_number(find_value(summary, name), goal)


def rank_key(value: float | None, goal: str = "minimize") -> tuple[int, float]:
    """Return a key that sorts the best value first and values that are not finite last."""
    if value is None or not math.isfinite(value):
        return (1, 0.0)
    return (0, -value if goal == "maximize" else value)


def list_logged(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names in a summary that could be a metric: numbers that the script logged."""
    names = (str(name) for name in summary if not str(name).startswith("_"))
    return tuple(name for name in names if metric_value(summary, name) is not None)


def find_value(summary: Any, name: str) -> Any:
    """Return what was logged under a name that may lead inside by dots; None if nothing was."""
    if not isinstance(summary, Mapping):
        return None
    if name in summary:
        return summary[name]
    for cut in (i for i, letter in enumerate(name) if letter == "."):
        found = find_value(summary.get(name[:cut]), name[cut + 1 :])
        if found is not None:
            return found
    return None


def _as_number(value: Any, goal: str) -> float | None:
    if isinstance(value, Mapping):
        fitting = "max" if goal == "maximize" else "min"
        order = [fitting, "best", "last", "mean", *value]
        return next((_as_number(value[k], goal) for k in order if k in value), None)
    if isinstance(value, str):
        return WRITTEN.get(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer that no float can hold
        return math.inf if value > 0 else -math.inf


def metric_name(config: Mapping[str, Any]) -> str | None:
    """Return the name of the metric to optimise, None if there is none."""
    metric = config.get("metric")
    name = metric.get("name") if isinstance(metric, Mapping) else None
    return str(name) if name else None


def metric_goal(config: Mapping[str, Any]) -> str:
    """Return `maximize` or, as W&B for anything else, `minimize`."""
    metric = config.get("metric")
    goal = metric.get("goal") if isinstance(metric, Mapping) else None
    return "maximize" if goal == "maximize" else "minimize"
