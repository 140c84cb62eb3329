"""What a benchmark gives: a figure with its goal, and how two commands are timed side by side."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of the report; `goal` is an upper bound, None where there is none."""

    name: str
    value: float
    unit: str
    goal: float | None
    detail: str

    @property
    def missed(self) -> bool:
        """Tell whether the goal was not met."""
        return self.goal is not None and self.value > self.goal


def render(figure: Figure) -> str:
    """Return a figure as a line."""
    goal = "no goal" if figure.goal is None else f"goal ≤ {figure.goal:g}"
    verdict = "" if figure.goal is None else ("MISSED" if figure.missed else "met")
    return (
        f"{figure.name:44} {figure.value:8.2f} {figure.unit:6} {goal:12} {verdict:6}"
        f"  {figure.detail}"
    )


def compare(
    name: str,
    goal: float,
    rounds: int,
    ours: Callable[[], float],
    theirs: Callable[[], float],
) -> Figure:
    """Time both in turn and return the median of the ratios, pair by pair."""
    pairs = [(ours(), theirs()) for _ in range(rounds)]
    ratio = statistics.median(mine / other for mine, other in pairs)
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    return Figure(name, ratio, "times", goal, f"{mine:.2f} s against {other:.2f} s, n={rounds}")
