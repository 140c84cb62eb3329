"""Curves of what runs logged, thinned to what a screen can show."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from deployer.backend.db.lines import read_rows
from deployer.backend.db.runs import Run
from deployer.backend.db.store import Store
from deployer.sweeps.metrics import metric_value

Curve = list[tuple[float, float | None]]

POINTS_PER_CURVE = 200
REMEMBERED_CURVES = 1000  # about 30 kB each


class CurveCache:
    """Curves of one metric, read again only when their run has sent something new."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[tuple[int, str], tuple[object, Curve]] = OrderedDict()

    def curve(self, run: Run, metric: str) -> Curve:
        """Return (step, value) in order; a value that is no finite number is None."""
        key, version = (run.id, metric), (run.attempt, run.heartbeat_at)
        known = self._known.pop(key, None)
        if known is None or known[0] != version:
            with self._store.snapshot() as db:
                rows = read_rows(db, run.id)
            known = (version, build_curve(rows, metric))
        self._known[key] = known
        while len(self._known) > REMEMBERED_CURVES:
            self._known.popitem(last=False)
        return known[1]


def build_curve(rows: Iterable[Mapping[str, Any]], metric: str) -> Curve:
    """Return the thinned curve of one metric; pure."""
    points: Curve = []
    for number, row in enumerate(rows):
        value = metric_value(row, metric)
        if value is not None:
            points.append((_step(row, number), value if math.isfinite(value) else None))
    return _thin(points)


def build_all_curves(rows: Iterable[Mapping[str, Any]]) -> dict[str, Curve]:
    """Return a thinned curve of every number that was logged, by its dotted name; pure."""
    found: dict[str, Curve] = {}
    for number, row in enumerate(rows):
        step = _step(row, number)
        for name, value in _numbers(row, ""):
            found.setdefault(name, []).append((step, value if math.isfinite(value) else None))
    return {name: _thin(points) for name, points in sorted(found.items())}


def _numbers(row: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            if "_type" not in value:  # an image, a table or a histogram
                yield from _numbers(value, f"{prefix}{name}.")
        elif not name.startswith("_"):
            number = metric_value({name: value}, name)
            if number is not None:
                yield f"{prefix}{name}", number


def _step(row: Mapping[str, Any], number: int) -> float:
    step = row.get("_step")
    usable = isinstance(step, int | float) and math.isfinite(step)
    return step if usable and step is not None else number


def _thin(points: Curve) -> Curve:
    """Return at most POINTS_PER_CURVE points, evenly spread, the first and the last among them."""
    if len(points) <= POINTS_PER_CURVE:
        return points
    stride = (len(points) - 1) / (POINTS_PER_CURVE - 1)
    return [points[round(index * stride)] for index in range(POINTS_PER_CURVE)]
