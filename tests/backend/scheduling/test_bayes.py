"""Bayesian search: better than chance, repeatable, and not to be broken by bad runs."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from deployer.backend.scheduling.bayes import modelled, outcomes
from deployer.backend.scheduling.search import (
    SearchEngine,
    SearchRun,
    needs_model,
    random_point,
    suggest,
)
from deployer.sweeps.parameters import parse_parameters

pytestmark = pytest.mark.slow

PARAMETERS = {
    "lr": {"distribution": "log_uniform_values", "min": 1e-5, "max": 1.0},
    "deep": {
        "parameters": {
            "width": {"min": 1, "max": 64},
            "act": {"values": ["relu", "tanh", "gelu"]},
            "drop": {"distribution": "q_uniform", "min": 0, "max": 1, "q": 0.05},
        }
    },
    "fixed": {"value": [1, 2]},
}
CONFIG = {"method": "bayes", "metric": {"name": "loss"}, "parameters": PARAMETERS}
SPACE, _ = parse_parameters(PARAMETERS)


def loss(point: dict[str, Any]) -> float:
    """Return a smooth valley with its bottom, 0, at lr 1e-3, width 20, drop 0.3 and gelu."""
    deep = point["deep"]
    valley = (math.log10(point["lr"]) + 3) ** 2 + ((deep["width"] - 20) / 16) ** 2
    return float(valley + 4 * (deep["drop"] - 0.3) ** 2 + 0.5 * (deep["act"] != "gelu"))


def finished(count: int, seed: str = "s", goal: str = "minimize") -> list[SearchRun]:
    sign = -1 if goal == "maximize" else 1
    points = [random_point(SPACE, seed, index) for index in range(count)]
    return [SearchRun(point, "finished", sign * loss(point)) for point in points]


def search_processes(owner: int) -> list[psutil.Process]:
    children = psutil.Process(owner).children()
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def best_after(engine: SearchEngine, count: int, seed: str, goal: str) -> float:
    config = {**CONFIG, "metric": {"name": "loss", "goal": goal}}
    runs = finished(10, seed, goal)
    for index in range(10, count):
        point = engine.suggest(config, seed, runs, index)
        assert point is not None
        runs.append(SearchRun(point, "finished", loss(point) * (-1 if goal == "maximize" else 1)))
    return min(loss(dict(run.arguments)) for run in runs)


@pytest.fixture(scope="session")
def engine() -> Iterator[SearchEngine]:
    engine = SearchEngine()
    yield engine
    engine.close()


@pytest.mark.full
@pytest.mark.parametrize(("goal", "seed"), [("minimize", "a"), ("maximize", "b")])
def test_bayes_beats_chance_clearly(engine: SearchEngine, goal: str, seed: str) -> None:
    chance = min(loss(dict(run.arguments)) for run in finished(200, seed))
    assert best_after(engine, 22, seed, goal) < chance


def test_a_suggestion_depends_on_its_arguments_alone() -> None:
    runs = finished(14)
    first = suggest(CONFIG, "s", runs[:12], 12)
    assert suggest(CONFIG, "s", runs, 14) != first
    assert suggest(CONFIG, "s", runs[:12], 12) == first
    assert suggest(CONFIG, "another", runs[:12], 12) != first


def test_a_model_begins_after_ten_runs_once_three_have_ended() -> None:
    ended, running = SearchRun({}, "failed"), SearchRun({}, "running")
    assert needs_model(CONFIG, [ended] * 3 + [running] * 7)
    assert not needs_model(CONFIG, [ended] * 2 + [running] * 20)
    assert not needs_model(CONFIG, [ended] * 9)


def test_pending_runs_are_kept_away_from() -> None:
    one = {
        "method": "bayes",
        "metric": {"name": "l"},
        "parameters": {"x": {"min": 0.0, "max": 1.0}},
    }
    space, _ = parse_parameters(one["parameters"])
    points = [random_point(space, "s", index) for index in range(12)]
    runs = [SearchRun(p, "finished", math.sin(25 * p["x"])) for p in points]
    alone = suggest(one, "s", runs, 12)
    assert alone is not None
    for state in ("running", "pending", "preempting", "preempted"):
        beside = suggest(one, "s", [*runs, SearchRun(alone, state)], 12)
        assert beside is not None
        assert abs(beside["x"] - alone["x"]) > 0.001


@pytest.mark.full
def test_the_best_point_is_not_measured_again_and_again() -> None:
    one = {
        "method": "bayes",
        "metric": {"name": "l"},
        "parameters": {"x": {"min": 0.0, "max": 1.0}},
    }
    runs: list[SearchRun] = []
    for index in range(20):
        point = suggest(one, "s", runs, index) or {}
        runs.append(SearchRun(point, "finished", (point["x"] - 0.4) ** 2))
    places = sorted(run.arguments["x"] for run in runs[10:])
    assert len(set(places)) == 10
    assert min(abs(place - 0.4) for place in places) < 0.01


def test_runs_without_a_good_value_count_as_the_worst() -> None:
    runs = [
        SearchRun({}, "finished", 1.0),
        SearchRun({}, "finished", 5.0),
        SearchRun({}, "finished", math.nan),
        SearchRun({}, "finished", -math.inf),
        SearchRun({}, "finished", None),
        SearchRun({}, "failed", 0.5),
        SearchRun({}, "crashed", None),
        SearchRun({}, "killed", 7.0),
    ]
    assert outcomes(runs, "minimize") == [1.0, 5.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0]
    assert outcomes(runs, "maximize") == [-1.0, -5.0, *[-0.5] * 6]
    assert outcomes(runs[2:5], "minimize") == [0.0, 0.0, 0.0]
    assert outcomes(runs[:3], "minimize", "best") == [1.0, 5.0, 1.0]
    assert outcomes(runs[:3], "maximize", "best") == [-1.0, -5.0, -5.0]
    assert outcomes(runs, "minimize", "latest") == [1.0, 5.0, *[7.0] * 6]


def test_a_model_of_many_runs_keeps_the_best_and_an_even_choice_of_the_rest() -> None:
    runs = [SearchRun({"n": n}, "finished", float(n)) for n in range(1000)]
    pending = SearchRun({"n": 1000}, "running")
    known = modelled([*runs, pending], [*(float(n) for n in range(1000)), 0.0])
    numbers = [run.arguments["n"] for run, _ in known]
    assert numbers[:100] == list(range(100))
    assert numbers[100:200] == list(range(100, 1000, 9))
    assert numbers[200:] == [1000]
    assert len(modelled(runs[:200], [0.0] * 200)) == 200


def test_bad_runs_never_break_the_search(caplog: pytest.LogCaptureFixture) -> None:
    good = finished(12)
    odd = [
        SearchRun(good[0].arguments, "finished", math.inf),
        SearchRun(good[1].arguments, "finished", 1e308),
        SearchRun(good[2].arguments, "failed"),
        SearchRun({**good[3].arguments, "lr": 0}, "finished", 1.0),
        SearchRun({**good[3].arguments, "lr": 50.0}, "finished", 1.0),
    ]
    lost = [
        SearchRun({}, "finished", 1.0),
        SearchRun({**good[3].arguments, "lr": "high"}, "finished", 1.0),
        SearchRun({**good[3].arguments, "deep": {"act": "selu"}}, "running"),
    ]
    with caplog.at_level(logging.WARNING):
        assert suggest(CONFIG, "s", [*good, *odd, *lost], 20)
    skipped = [r for r in caplog.records if "skips a run that does not fit" in r.getMessage()]
    assert len(skipped) == len(lost)
    assert suggest(CONFIG, "s", lost[:2] * 10, 20)  # nothing to learn from
    fixed = {**CONFIG, "parameters": {"a": {"value": 1}}}
    assert suggest(fixed, "s", [SearchRun({"a": 1}, "finished", 1.0)] * 10, 10) == {"a": 1}


def test_an_integer_with_many_values_takes_no_list_of_them() -> None:
    many = {**CONFIG, "parameters": {"n": {"min": 0, "max": 10**12}}}
    runs = [SearchRun({"n": n * 10**11}, "finished", abs(n - 4.0)) for n in range(10)]
    point = suggest(many, "s", runs, 10) or {}
    assert isinstance(point["n"], int)
    assert 0 <= point["n"] <= 10**12


def test_numbers_that_came_back_from_json_still_fit() -> None:
    runs = [
        SearchRun(
            {**r.arguments, "deep": {**r.arguments["deep"], "width": float(n)}}, r.state, r.value
        )
        for n, r in enumerate(finished(12), start=1)
    ]
    assert suggest(CONFIG, "s", runs, 12)


def test_the_engine_models_in_a_process_of_its_own(engine: SearchEngine) -> None:
    runs = finished(12)
    point = engine.suggest(CONFIG, "own", runs, 12)
    assert point == suggest(CONFIG, "own", runs, 12)  # the same runs and seed
    assert point is not None
    assert list(point) == ["fixed", "lr", "deep"]
    assert point["fixed"] == [1, 2]
    types = {type(value) for value in (point["lr"], *point["deep"].values())}
    assert types == {float, int, str}
    assert len(search_processes(os.getpid())) == 1


@pytest.mark.full
def test_a_killed_search_process_is_replaced(engine: SearchEngine) -> None:
    runs = finished(12)
    first = engine.suggest(CONFIG, "killed", runs, 12)
    (killed,) = search_processes(os.getpid())
    killed.kill()
    assert engine.suggest(CONFIG, "killed", runs, 12) == first
    assert killed not in search_processes(os.getpid())


def test_grid_and_random_start_no_process() -> None:
    before = search_processes(os.getpid())
    engine = SearchEngine()
    parameters = {"a": {"values": [1, 2]}}
    assert engine.suggest({"method": "grid", "parameters": parameters}, "s", [], 0) == {"a": 1}
    assert engine.suggest({"method": "random", "parameters": parameters}, "s", [], 0)
    assert search_processes(os.getpid()) == before
    engine.close()


OWNER = """
import time
from deployer.backend.scheduling.search import SearchEngine
if __name__ == "__main__":
    engine = SearchEngine()
    config = {"method": "bayes", "metric": {"name": "l"}, "parameters": {"a": {"value": 1}}}
    engine.suggest(config, "s", [], 0)
    print("searching", flush=True)
    time.sleep(600)
"""


def test_the_search_process_never_outlives_a_killed_server(tmp_path: Any) -> None:
    script = tmp_path / "owner.py"
    script.write_text(OWNER)
    owner = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "searching\n"
    (search,) = search_processes(owner.pid)
    owner.kill()
    owner.communicate()
    psutil.wait_procs([search], timeout=60)
    assert not search.is_running()
