"""Curves of what runs logged, thinned to what a screen can show; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.page.strict_json import name_float
from deployer.sweeps.metrics import metric_value

POINTS_PER_CURVE = 200
EPOCH_NAMES = ("epoch", "train/epoch", "trainer/epoch", "train.epoch")


@dataclass(frozen=True)
class Point:
    """A logged value; one that is no finite number is None, as is an x that was not logged.

    `word` is what such a value is called.
    """

    step: float
    value: float | None
    seconds: float | None = None
    epoch: float | None = None
    word: str = ""


def build_curve(rows: Iterable[Mapping[str, Any]], metric: str) -> list[Point]:
    """Return the thinned curve of one metric."""
    points = []
    for number, row in enumerate(rows):
        value = metric_value(row, metric)
        if value is not None:
            points.append(_point(row, number, value))
    return _thin(points)


def build_all_curves(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Point]]:
    """Return a thinned curve of every number that was logged, by its dotted name."""
    found: dict[str, list[Point]] = {}
    for number, row in enumerate(rows):
        for name, value in _numbers(row, ""):
            found.setdefault(name, []).append(_point(row, number, value))
    return {name: _thin(points) for name, points in sorted(found.items())}


def describe_curve(points: Sequence[Point]) -> dict[str, Any]:
    """Return a curve as columns; `seconds` and `epochs` only where some point has one.

    `words` are what values are called that are no finite numbers, by their place.
    """
    described: dict[str, Any] = {
        "steps": [point.step for point in points],
        "values": [point.value for point in points],
    }
    for name, column in (
        ("seconds", [point.seconds for point in points]),
        ("epochs", [point.epoch for point in points]),
    ):
        if any(value is not None for value in column):
            described[name] = column
    if words := {str(at): point.word for at, point in enumerate(points) if point.word}:
        described["words"] = words
    return described


def _point(row: Mapping[str, Any], number: int, value: float) -> Point:
    step = _finite(row.get("_step"))
    finite = math.isfinite(value)
    epoch = next((at for name in EPOCH_NAMES if (at := _finite(row.get(name))) is not None), None)
    return Point(
        step=number if step is None else step,
        value=value if finite else None,
        seconds=_finite(row.get("_runtime")),
        epoch=epoch,
        word="" if finite else name_float(value),
    )


def _numbers(row: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            if "_type" not in value:  # an image, a table or a histogram
                yield from _numbers(value, f"{prefix}{name}.")
        elif not name.startswith("_"):
            number = metric_value({name: value}, name)
            if number is not None:
                yield f"{prefix}{name}", number


def _finite(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and math.isfinite(value) else None


def _thin(points: list[Point]) -> list[Point]:
    """Return at most POINTS_PER_CURVE points, evenly spread, the first and the last among them."""
    if len(points) <= POINTS_PER_CURVE:
        return points
    stride = (len(points) - 1) / (POINTS_PER_CURVE - 1)
    return [points[round(index * stride)] for index in range(POINTS_PER_CURVE)]
