"""Every figure of the runs, where values are as large, as small or as odd as floats can be."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from deployer.analysis.best_so_far import list_best_so_far
from deployer.analysis.importance import build_importance
from deployer.analysis.moments import deviation, mean
from deployer.analysis.parallel import build_axes
from deployer.analysis.ranking import parse_reduction, reduce_values
from deployer.cli.ranking import RankingView, show_results
from deployer.model import Run, Sweep, SweepPath
from deployer.page.strict_json import to_strict_json
from deployer.page.sweep_document import SweepSource, build_sweep_document
from deployer.sweeps.results import Results, build_results, run_seconds
from deployer.text import format_seconds

HUGE, TINY = 1e308, 5e-324
BEYOND_DOUBLES = 10**309
ODD = (HUGE, -HUGE, math.inf, -math.inf, math.nan, TINY, 2**63, BEYOND_DOUBLES, -BEYOND_DOUBLES)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((HUGE, HUGE), HUGE),
        ((HUGE, -HUGE), 0.0),
        ((HUGE, math.inf), math.inf),
        ((TINY, TINY), TINY),
        ((0.25, 0.75), 0.5),
    ],
)
def test_a_mean_is_never_beyond_its_values(values: Sequence[float], expected: float) -> None:
    assert mean(values) == expected
    assert reduce_values(values, parse_reduction("mean:9"), "minimize") == expected


def test_what_has_no_mean_is_nan() -> None:
    assert math.isnan(mean((math.inf, -math.inf)))
    assert math.isnan(mean((math.nan, HUGE)))


def test_a_spread_beyond_all_floats_is_infinite() -> None:
    assert deviation((HUGE, -HUGE)) == pytest.approx(math.sqrt(2) * HUGE)
    assert deviation((1.7e308, -1.7e308)) == math.inf
    assert deviation((1.0, 3.0)) == pytest.approx(math.sqrt(2))


def _results(values: Sequence[Any], parameters: Sequence[Any], method: str = "random") -> Results:
    return build_results(_sweep(len(values), method), _runs(values, parameters))


def _sweep(count: int, method: str = "random") -> Sweep:
    config = {
        "method": method,
        "metric": {"name": "loss"},
        "parameters": {"lr": {"values": [1, 2]}, "seed": {"values": [1, 2]}},
    }
    return Sweep(SweepPath("e", "p", "s"), "n", "t", "FINISHED", config, count, count, None)


def _runs(values: Sequence[Any], parameters: Sequence[Any]) -> list[Run]:
    return [
        Run(f"run{n}", "t", "finished", {"lr": lr, "seed": n},
                {"loss": value, "_runtime": value}, 0, 10.0, 20.0)
        for n, (value, lr) in enumerate(zip(values, parameters, strict=True))
    ]  # fmt: skip


@pytest.mark.parametrize("output", ["table", "csv", "json"])
@pytest.mark.parametrize("grouped", [False, True])
def test_results_of_odd_values_are_shown(
    output: str, grouped: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [*ODD, 0.5, 0.25, *ODD]
    found = _results(values, values)
    show_results(found, output, RankingView(grouped=grouped))
    shown = capsys.readouterr().out
    assert "1e+308" in shown
    if output == "json":
        assert len(json.loads(shown)["runs"]) == len(values)


def test_the_page_and_the_importance_of_odd_values() -> None:
    values = [*ODD, *ODD, 0.5, 0.25]
    parameters = [*values[3:], *values[:3]]
    found = _results(values, parameters)
    axes, _ = build_axes(found.rows, _sweep(1).config, "loss")
    assert [axis.name for axis in axes] == ["lr", "seed", "loss"]
    assert list_best_so_far(found.rows, "minimize")[-1].best == -HUGE
    source = SweepSource(_sweep(len(values)), _runs(values, parameters), found, (), 100.0)
    assert json.loads(to_strict_json(build_sweep_document(source)))["best"]["value"] == -HUGE
    assert build_importance(found.rows, "loss").runs == len(list_best_so_far(found.rows, ""))


def test_importance_is_the_same_in_huge_units() -> None:
    draw = random.Random(1)
    rates = [draw.random() for _ in range(60)]
    parts = []
    for scale in (1.0, 1.7e308):
        rows = _results([scale * (2 * rate - 1) for rate in rates], rates).rows
        parts.append(next(p for p in build_importance(rows, "loss").parameters if p.name == "lr"))
    assert parts[0].importance > 0.5
    assert parts[1].importance == pytest.approx(parts[0].importance, abs=0.02)
    assert parts[1].correlation == pytest.approx(1)


def test_an_integer_beyond_floats_is_an_infinite_value() -> None:
    found = _results([BEYOND_DOUBLES, 1], [1, 2])
    assert found.not_finite == 1
    assert found.best is not None
    assert found.best.run_id == "run1"


@pytest.mark.parametrize("seconds", ODD)
def test_a_duration_that_no_run_can_have_is_none(seconds: float) -> None:
    run = Run("a", "t", "finished", {}, {"_runtime": seconds}, 0, 10.0, 20.0)
    assert run_seconds(run) == (seconds if seconds == TINY else 10.0)


@pytest.mark.parametrize("seconds", [math.inf, math.nan])
def test_a_time_that_is_not_finite_has_no_words(seconds: float) -> None:
    assert format_seconds(seconds) == ""
