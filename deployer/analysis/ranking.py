"""Ranking by any metric, and by any value of a run's history; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deployer.analysis.reduction import Reduction, reduce_values
from deployer.model import Run, Sweep
from deployer.sweeps.results import Results, Row, build_results, is_done, rank_rows


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
    """Rank results anew, by a value of each run's history of the metric.

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
