"""Early termination on written histories."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from deployer.backend.scheduling.early_termination import Halving, band_iterations


@dataclass(frozen=True)
class WrittenRun:
    """A run's state in W&B's words, and every value of the metric that it logged."""

    run_id: str
    state: str
    history: Sequence[float]


def runs_to_stop(config: Mapping[str, Any], runs: Sequence[WrittenRun]) -> list[str]:
    """Return the ids of running runs that are poor."""
    halving = Halving(config)
    for run in runs:
        halving.add(run.run_id, run.history)
    return [run.run_id for run in runs if run.state == "running" and halving.is_poor(run.run_id)]


CONFIG = {
    "metric": {"name": "loss"},
    "early_terminate": {"type": "hyperband", "max_iter": 5, "eta": 2, "s": 2},
}
# The example in the documentation of W&B's engine: bands 1 and 2.
RUNS = [
    WrittenRun("a", "finished", [10, 9]),
    WrittenRun("b", "running", [10, 10]),
    WrittenRun("c", "running", [10, 8, 8]),
    WrittenRun("d", "running", [10, 7, 7]),
    WrittenRun("e", "finished", [10, 6, 6]),
]


def with_rule(**rule: Any) -> dict[str, Any]:
    return {**CONFIG, "early_terminate": {"type": "hyperband", **rule}}


@pytest.mark.parametrize(
    ("rule", "bands"),
    [
        ({"max_iter": 27, "s": 2}, [3, 9]),
        ({"max_iter": 27, "s": 5}, [1, 3, 9]),
        ({"max_iter": 5, "eta": 2, "s": 2}, [1, 2]),
        ({"max_iter": 2, "s": 3}, []),
        ({"max_iter": 27}, []),
        ({"min_iter": 0}, []),
        ({"min_iter": 3, "eta": 1}, []),
        ({}, []),
    ],
)
def test_bands(rule: dict[str, Any], bands: list[int]) -> None:
    assert band_iterations(rule) == bands


def test_bands_from_min_iter_go_up_without_end() -> None:
    bands = band_iterations({"min_iter": 3})
    assert bands[:4] == [3, 9, 27, 81]
    assert len(bands) == 100


def test_wandbs_own_example() -> None:
    assert runs_to_stop(CONFIG, RUNS) == ["b"]


def test_maximise_negates() -> None:
    negated = [WrittenRun(r.run_id, r.state, [-v for v in r.history]) for r in RUNS]
    config = {**CONFIG, "metric": {"name": "loss", "goal": "maximize"}}
    assert runs_to_stop(config, negated) == ["b"]


def test_the_first_run_at_a_band_is_never_stopped() -> None:
    assert runs_to_stop(CONFIG, [WrittenRun("a", "running", [5, 99])]) == []


def test_strict_judges_the_value_at_the_band_and_otherwise_the_best() -> None:
    runs = [
        WrittenRun("good", "finished", [1, 5]),
        WrittenRun("other", "finished", [1, 6]),
        WrittenRun("fell back", "running", [1, 9]),
    ]
    assert runs_to_stop(with_rule(min_iter=2, strict=True), runs) == ["fell back"]
    assert runs_to_stop(with_rule(min_iter=2, strict=False), runs) == []
    assert runs_to_stop(with_rule(min_iter=2), runs) == []


def test_a_run_below_its_first_band_goes_on() -> None:
    runs = [WrittenRun("a", "finished", [1, 1, 1]), WrittenRun("b", "running", [9, 9])]
    assert runs_to_stop(with_rule(min_iter=3), runs) == []


def test_values_that_are_no_numbers_do_not_count_as_iterations() -> None:
    runs = [
        WrittenRun("a", "finished", [1, 1]),
        WrittenRun("b", "running", [9, math.nan, math.inf]),
        WrittenRun("c", "running", [9, math.nan, 9]),
    ]
    assert runs_to_stop(with_rule(min_iter=2, eta=2), runs) == []
    more = [*runs, WrittenRun("d", "finished", [1, 1]), WrittenRun("e", "finished", [1, 1])]
    assert runs_to_stop(with_rule(min_iter=2, eta=2), more) == ["c"]


def test_only_running_runs_are_stopped() -> None:
    states = ("finished", "failed", "crashed", "killed", "pending", "preempting", "preempted")
    best = [WrittenRun(f"best {i}", "finished", [1, 1]) for i in range(20)]
    assert runs_to_stop(CONFIG, best + [WrittenRun(s, s, [9, 9]) for s in states]) == []


@pytest.mark.parametrize("rule", [None, "hyperband", {"type": "median"}, {"min_iter": 2}])
def test_no_rule_stops_nothing(rule: Any) -> None:
    assert runs_to_stop({**CONFIG, "early_terminate": rule}, RUNS) == []
