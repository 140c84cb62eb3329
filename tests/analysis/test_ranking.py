"""Ranking by another metric, and by a value of each run's history."""

from __future__ import annotations

import math

import pytest

from deployer.analysis.ranking import (
    Reduction,
    Taken,
    parse_reduction,
    rank_by,
    rank_by_history,
    reduce_values,
)
from deployer.model import Run, Sweep, SweepPath
from deployer.sweeps.results import build_results

CONFIG = {
    "method": "grid",
    "metric": {"name": "loss", "goal": "minimize", "target": 0.1},
    "parameters": {"lr": {"values": [1, 2, 3]}},
}
SWEEP = Sweep(SweepPath("me", "p", "s"), "", "", "FINISHED", CONFIG, 2, 3, None)


def make_run(name: str, lr: int, state: str = "finished", **summary: float) -> Run:
    return Run(name, name, state, {"lr": lr}, summary, 0, 0.0, 60.0)


RUNS = [make_run("a", 1, loss=0.1, accuracy=0.7), make_run("b", 2, loss=0.2, accuracy=0.9)]


def test_another_metric_ranks_anew_and_leaves_the_coverage() -> None:
    own = build_results(SWEEP, RUNS)
    found = rank_by(SWEEP, RUNS, "accuracy", "maximize")
    assert [row.run_id for row in own.rows] == ["a", "b"]
    assert [row.run_id for row in found.rows] == ["b", "a"]
    assert (found.metric, found.goal, found.best) == ("accuracy", "maximize", found.rows[0])
    assert found.coverage == own.coverage  # it has reached its target


def test_metric_that_nothing_logged_is_missing() -> None:
    assert rank_by(SWEEP, RUNS, "f1", "maximize").metric_missing


@pytest.mark.parametrize(
    ("by", "order"),
    [("last", ["b", "a"]), ("best", ["a", "b"]), ("mean:2", ["b", "a"]), ("mean:9", ["a", "b"])],
)
def test_histories_rank_by_last_best_and_mean(by: str, order: list[str]) -> None:
    histories = {"a": [0.1, 0.1, 0.1, 0.9, 0.9], "b": [0.9, 0.9, 0.8, 0.7, 0.8]}
    found = rank_by_history(SWEEP, build_results(SWEEP, RUNS), histories, parse_reduction(by))
    assert [row.run_id for row in found.rows] == order
    assert [row.rank for row in found.rows] == [1, 2]


def test_run_without_a_history_has_no_rank_and_a_failed_one_none_either() -> None:
    runs = [*RUNS, make_run("c", 3, "failed", loss=0.01)]
    histories = {"b": [0.3], "c": [0.0]}
    last = Reduction(Taken.LAST)
    found = rank_by_history(SWEEP, build_results(SWEEP, runs), histories, last)
    assert [(row.run_id, row.rank, row.value) for row in found.rows] == [
        ("b", 1, 0.3),
        ("a", None, None),
        ("c", None, 0.0),
    ]
    assert (found.unlogged, [row.run_id for row in found.failures]) == (1, ["c"])


def test_values_that_are_not_finite() -> None:
    values = [2.0, math.nan, 1.0, math.inf]
    assert reduce_values(values, Reduction(Taken.BEST), "minimize") == 1.0
    assert reduce_values(values, Reduction(Taken.BEST), "maximize") == 2.0
    assert reduce_values(values, Reduction(Taken.LAST), "minimize") == math.inf
    mean = reduce_values(values, Reduction(Taken.MEAN, 3), "minimize")
    assert mean is not None
    assert math.isnan(mean)
    assert reduce_values([], Reduction(Taken.LAST), "minimize") is None


@pytest.mark.parametrize("text", ["", "first", "mean", "mean:", "mean:0", "mean:-1", "last:2"])
def test_bad_reductions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="none of last, best and mean:K"):
        parse_reduction(text)


def test_reductions_are_written_as_they_are_read() -> None:
    for text in ("last", "best", "mean:5"):
        assert str(parse_reduction(text)) == text
