"""Ranking by any metric, and by a value reduced from a run's history; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from deployer.analysis.moments import mean
from deployer.model import Run, Sweep
from deployer.sweeps.results import Results, Row, build_results, is_done, rank_rows


class Taken(StrEnum):
    """Which value of a history is used."""

    LAST = "last"
    BEST = "best"
    MEAN = "mean"


@dataclass(frozen=True)
class Reduction:
    """How to reduce a history to one value; `count` is K in `mean:K`, the mean of the last K."""

    taken: Taken
    count: int = 1

    def __str__(self) -> str:
        return f"{self.taken}:{self.count}" if self.taken is Taken.MEAN else str(self.taken)


def parse_reduction(text: str) -> Reduction:
    """Read `last`, `best` or `mean:K` with K of 1 or more; raises ValueError."""
    word, colon, number = text.partition(":")
    if word == Taken.MEAN and number.isdecimal() and int(number) > 0:
        return Reduction(Taken.MEAN, int(number))
    if not colon and word in (Taken.LAST, Taken.BEST):
        return Reduction(Taken(word))
    raise ValueError(f"'{text}' is none of last, best and mean:K")


def reduce_values(values: Sequence[float], reduction: Reduction, goal: str) -> float | None:
    """Return one value of a run's history, in the order of logging; None if empty.

    The best is that of the finite values. A mean is of up to K values, and NaN if one of them is.
    """
    if not values:
        return None
    if reduction.taken is Taken.BEST:
        finite = [value for value in values if math.isfinite(value)]
        choose = max if goal == "maximize" else min
        return choose(finite) if finite else values[-1]
    return mean(values[-reduction.count :])


def rank_by(sweep: Sweep, runs: Sequence[Run], metric: str, goal: str) -> Results:
    """Return a sweep's results as if it had another metric; its coverage stays its own."""
    other = replace(sweep, config={**sweep.config, "metric": {"name": metric, "goal": goal}})
    own = build_results(sweep, runs)
    return replace(build_results(other, runs), coverage=own.coverage)


def rank_by_history(
    sweep: Sweep,
    results: Results,
    histories: Mapping[str, Sequence[float]],
    reduction: Reduction,
) -> Results:
    """Rank results again, by a value of each run's history of the metric.

    `histories` are by run id, in the order of logging. A run without one has no value.
    """
    goal = results.goal
    rows = rank_rows(
        replace(sweep, config={**sweep.config, "metric": {"name": results.metric, "goal": goal}}),
        [_take(row, histories.get(row.run_id, ()), reduction, goal) for row in results.rows],
    )
    finished = [row for row in rows if is_done(sweep, row.state)]
    return replace(
        results,
        rows=rows,
        best=next((row for row in rows if row.rank is not None), None),
        failures=tuple(row for row in rows if row.run_id in {f.run_id for f in results.failures}),
        unlogged=sum(row.value is None for row in finished),
        not_finite=sum(row.value is not None and row.rank is None for row in finished),
    )


def _take(row: Row, history: Sequence[float], reduction: Reduction, goal: str) -> Row:
    return replace(row, rank=None, value=reduce_values(history, reduction, goal))
