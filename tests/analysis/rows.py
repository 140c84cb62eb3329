"""Rows of made-up runs, the same each time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from deployer.sweeps.results import Row, rank_key

Parameters = dict[str, Any]
Metric = Callable[[Parameters, random.Random], float]


def make_row(
    number: int, value: float | None, parameters: Parameters, state: str = "finished", **more: Any
) -> Row:
    """Return a row as the results have it before they are ranked."""
    return Row(None, f"run{number:05}", "", state, value, parameters, 60.0, None, **more)


def rank(rows: Sequence[Row], goal: str = "minimize") -> list[Row]:
    """Rank the finished rows that have a finite value, as the results do."""
    ordered = sorted(rows, key=lambda row: (row.state != "finished", rank_key(row.value, goal)))
    good = [row.state == "finished" and rank_key(row.value)[0] == 0 for row in ordered]
    return [
        replace(row, rank=place if usable else None)
        for place, (row, usable) in enumerate(zip(ordered, good, strict=True), start=1)
    ]


def draw_rows(count: int, metric: Metric, seed: int = 0) -> list[Row]:
    """Return ranked runs of a random sweep: lr by its logarithm, two choices, two more numbers.

    `momentum` is there with sgd alone.
    """
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        parameters: Parameters = {
            "lr": 10 ** draw.uniform(-5, -1),
            "batch_size": draw.choice([16, 32, 64, 128]),
            "optimizer.name": draw.choice(["sgd", "adam", "lamb"]),
            "dropout": draw.random(),
            "epochs": 10,
        }
        if parameters["optimizer.name"] == "sgd":
            parameters["optimizer.momentum"] = draw.random()
        rows.append(make_row(number, metric(parameters, draw), parameters))
    return rank(rows)
