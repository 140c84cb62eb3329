"""Curves of logged metrics, thinned for display, or as CSV; pure."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any

from deployer.page.strict_json import name_float
from deployer.sweeps.results import metric_value

POINTS_PER_CURVE = 200
STRETCHES = POINTS_PER_CURVE // 2 - 1
EPOCH_NAMES = ("epoch", "train/epoch", "trainer/epoch", "train.epoch")
W_AND_B = ("_step", "_runtime", "_timestamp")
COMPUTED = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet evaluates text with these prefixes


@dataclass(frozen=True)
class Point:
    """A logged value; None if it is not finite. `seconds` and `epoch` are None if not logged.

    `word` is the name of a value that is not finite.
    """

    step: float
    value: float | None
    seconds: float | None = None
    epoch: float | None = None
    word: str = ""


@dataclass(frozen=True)
class Curve:
    """A metric's logged values, thinned; the other fields describe all values.

    `gap` is the first step with a value that is not finite, `low` is True if some value is 0 or
    less, `thinned` if some values were dropped.
    """

    points: list[Point]
    gap: float | None = None
    low: bool = False
    thinned: bool = False


def build_curve(rows: Iterable[Mapping[str, Any]], metric: str) -> Curve:
    points = []
    for number, row in enumerate(rows):
        value = metric_value(row, metric)
        if value is not None:
            points.append(_point(row, number, value))
    return _build(points)


def build_all_curves(rows: Iterable[Mapping[str, Any]]) -> dict[str, Curve]:
    found: dict[str, list[Point]] = {}
    for number, row in enumerate(rows):
        for name, value in list_logged(row):
            found.setdefault(name, []).append(_point(row, number, value))
    return {name: _build(points) for name, points in sorted(found.items())}


def describe_curve(curve: Curve) -> dict[str, Any]:
    """Return a curve as columns; `seconds` and `epochs` only if some point has one.

    `words` maps an index to the name of its value that is not finite. Empty `words` and false flags
    are left out.
    """
    points = curve.points
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
    if curve.gap is not None:
        described["gap"] = curve.gap
    flags = {"low": curve.low, "thinned": curve.thinned}
    return described | {name: True for name, told in flags.items() if told}


def list_logged(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of a history's row by dotted names, without W&B's own."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            if "_type" not in value:  # an image, a table or a histogram
                yield from list_logged(value, f"{prefix}{name}.")
        elif not name.startswith("_"):
            number = metric_value({name: value}, name)
            if number is not None:
                yield f"{prefix}{name}", number


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


def _finite(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and math.isfinite(value) else None


def _build(points: list[Point]) -> Curve:
    gap = next((point.step for point in points if point.value is None), None)
    low = any(point.value is not None and point.value <= 0 for point in points)
    return Curve(_thin(points), gap, low, thinned=len(points) > POINTS_PER_CURVE)


def _thin(points: list[Point]) -> list[Point]:
    """Return at most POINTS_PER_CURVE points: the ends, minimum and maximum of each stretch."""
    if len(points) <= POINTS_PER_CURVE:
        return points
    inner = points[1:-1]
    found = points[:1]
    for index in range(STRETCHES):
        begin, end = (len(inner) * at // STRETCHES for at in (index, index + 1))
        found += _pick(inner[begin:end])
    return [*found, points[-1]]


def _pick(stretch: list[Point]) -> list[Point]:
    finite = [(point.value, at) for at, point in enumerate(stretch) if point.value is not None]
    places = {min(finite)[1], max(finite)[1]} if finite else {0}
    return [stretch[at] for at in sorted(places)]


def write_history(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return CSV with a line for each row and a column for each logged number, by dotted name.

    W&B's own step, seconds since the start and time (epoch seconds) come first, if present.
    """
    logged = [(row, dict(list_logged(row))) for row in rows]
    first = [name for name in W_AND_B if any(name in row for row, _ in logged)]
    names = sorted({name for _, numbers in logged for name in numbers})
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*first, *(f"'{n}" if n.startswith(COMPUTED) else n for n in names)])
    for row, numbers in logged:
        if numbers:
            cells = [row.get(name) for name in first] + [numbers.get(name) for name in names]
            writer.writerow(cells)
    return text.getvalue()
