"""Axes of parallel coordinates; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deployer.sweeps.parameters import parse_parameters
from deployer.sweeps.results import Row
from deployer.sweeps.space import Continuous, distinct

# Parameters without a known distribution use a log scale if they span more than this factor.
LOG_FACTOR = 50.0


class Scale(StrEnum):
    """How an axis places values."""

    LINEAR = "linear"
    LOG = "log"
    CATEGORY = "category"


@dataclass(frozen=True)
class Axis:
    """One axis; the metric's is the last one.

    `domain` is the least and the largest value, or (0, number of categories - 1). `categories` are
    the values of a category axis, placed at their indices.
    """

    name: str
    scale: Scale
    domain: tuple[float, float]
    categories: tuple[Any, ...] = ()


def build_axes(
    rows: Sequence[Row],
    sweep_config: Mapping[str, Any],
    metric: str | None,
    order: Sequence[str] = (),
) -> tuple[list[Axis], dict[str, Any]]:
    """Return the axes of varying parameters and the metric, and the constant values by name.

    Parameters in `order` (the most important first) are nearest to the metric; the others are to
    the left of them, in the order of the sweep's file.
    """
    names = tuple(dict.fromkeys(name for row in rows for name in row.parameters))
    found = {name: distinct(_values(rows, name)) for name in names}
    varying = [n for n in names if len(found[n]) > 1 or _is_partial(rows, n)]
    rest = [name for name in varying if name not in order]
    nearest = [name for name in reversed(order) if name in varying]
    space, _ = parse_parameters(sweep_config.get("parameters", {}))
    scales = {
        ".".join(form.path): "log_" in form.distribution
        for form in space.parameters
        if isinstance(form, Continuous)
    }
    axes = [_build_axis(name, found[name], scales) for name in (*rest, *nearest)]
    if metric is not None:
        axes.append(_build_metric_axis(metric, rows))
    constants = {name: found[name][0] for name in names if name not in varying}
    return axes, constants


def _values(rows: Sequence[Row], name: str) -> list[Any]:
    return [row.parameters[name] for row in rows if name in row.parameters]


def _is_partial(rows: Sequence[Row], name: str) -> bool:
    return any(name not in row.parameters for row in rows)


def _build_axis(name: str, values: Sequence[Any], scales: Mapping[str, bool]) -> Axis:
    numbers = [float(value) for value in values if is_number(value)]
    if len(numbers) < len(values):
        ordered = tuple(sorted(values, key=_category_key))
        return Axis(name, Scale.CATEGORY, (0.0, float(max(0, len(ordered) - 1))), ordered)
    least, most = min(numbers), max(numbers)
    wide = least > 0 and most / least > LOG_FACTOR
    is_log = least > 0 and scales.get(name, wide)
    return Axis(name, Scale.LOG if is_log else Scale.LINEAR, (least, most))


def _category_key(value: Any) -> tuple[str, float, str]:
    number = float(value) if is_number(value) else 0.0
    return type(value).__name__, number, str(value)


def _build_metric_axis(metric: str, rows: Sequence[Row]) -> Axis:
    values = [row.value for row in rows if row.value is not None and math.isfinite(row.value)]
    return Axis(metric, Scale.LINEAR, (min(values, default=0.0), max(values, default=1.0)))


def is_number(value: Any) -> bool:
    """Return True if a value is a finite number; a boolean is not."""
    kind = type(value)
    if kind is float:  # the most frequent type
        return math.isfinite(value)
    try:
        return isinstance(value, int | float) and kind is not bool and math.isfinite(value)
    except OverflowError:  # an integer that no float can hold
        return False
