"""The best value so far: run by run, and over time; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deployer.sweeps.results import Row, rank_key


@dataclass(frozen=True)
class BestPoint:
    """A finished run with a finite value.

    `number` counts such runs from 1 in the order of their ends. `ended_at` is in epoch seconds, or
    None if unknown. `best` is the best value so far, `improved` is True if it is this run's.
    """

    number: int
    ended_at: float | None
    run_id: str
    value: float
    best: float
    improved: bool


def list_best_so_far(rows: Sequence[Row], goal: str) -> tuple[BestPoint, ...]:
    """Return a point for each ranked run, in the order in which they ended.

    Runs with an unknown end come last.
    """
    ended = [(find_end(row), row.run_id, row.value) for row in rows if row.rank is not None]
    ended.sort(key=lambda one: (one[0] is None, one[0] or 0.0))
    points: list[BestPoint] = []
    best: float | None = None
    for ended_at, run_id, value in ended:
        assert value is not None
        improved = best is None or rank_key(value, goal) < rank_key(best, goal)
        best = value if improved or best is None else best
        points.append(BestPoint(len(points) + 1, ended_at, run_id, value, best, improved))
    return tuple(points)


def find_end(row: Row) -> float | None:
    """Return when a run ended, in epoch seconds: by its last attempt, else by its duration."""
    if row.attempts and row.attempts[-1].ended_at is not None:
        return row.attempts[-1].ended_at
    if row.started_at is None:
        return None
    return row.started_at + (row.duration_seconds or 0.0)
