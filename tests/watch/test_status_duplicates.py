"""Twins and overshooting on servers that hand out too much; the ramp that they bear."""

from __future__ import annotations

import random
from typing import Any

import pytest

from deployer.launch.check import MANY_AGENTS, warn_about_many
from deployer.launch.planning import RAMP_SECONDS, build_ramp
from deployer.model import Run, Sweep, SweepPath
from deployer.sweeps.results import build_results
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import Viewer
from deployer.wandb_api.server import Server
from deployer.watch.status import find_duplicates, is_overshooting
from tests.conftest import FOREIGN_KEY, ServedBackend

CONFIG: dict[str, Any] = {
    "method": "grid",
    "parameters": {"lr": {"values": [1, 2]}, "o": {"parameters": {"m": {"values": [1, 2]}}}},
}


def sweep(method: str = "grid", state: str = "RUNNING", expected: int | None = 2) -> Sweep:
    path = SweepPath("e", "p", "s")
    return Sweep(path, "n", "t", state, {**CONFIG, "method": method}, 0, expected, None)


def run(run_id: str, state: str, lr: Any = 1, at: float | None = 0.0, m: Any = 1) -> Run:
    return Run(run_id, "", state, {"lr": lr, "o": {"m": m}}, {}, None, at, None)


def duplicates(runs: list[Run], method: str = "grid") -> list[str]:
    return [found.run_id for found in find_duplicates(sweep(method), runs)]


def test_the_younger_of_two_that_run_the_same_is_the_twin() -> None:
    old, young = run("old", "running", at=1.0), run("young", "running", lr=1.0, at=2.0)
    assert duplicates([young, old]) == ["young"]
    assert duplicates([old, run("other", "running", lr=2, at=2.0)]) == []
    assert duplicates([old, run("other", "running", m=2, at=2.0)]) == []


def test_what_is_finished_needs_no_other_run() -> None:
    assert duplicates([run("late", "running", at=1.0), run("done", "finished", at=2.0)]) == ["late"]


def test_ended_runs_and_those_that_say_nothing_yet_are_no_twins() -> None:
    silent = Run("silent", "", "pending", {}, {}, None, 3.0, None)
    assert duplicates([run("a", "running"), run("b", "failed"), silent, silent]) == []
    assert duplicates([run("a", "finished"), run("b", "finished")]) == []


def test_other_methods_may_draw_a_configuration_twice() -> None:
    assert duplicates([run("a", "running"), run("b", "running")], "random") == []


def test_a_sweep_overshoots_when_all_is_finished_and_it_goes_on() -> None:
    done = [run("a", "finished", 1), run("b", "finished", 2)]
    for state, runs, expected, answer in (
        ("RUNNING", done, 2, True),
        ("FINISHED", done, 2, False),
        ("RUNNING", done[:1], 2, False),
        ("RUNNING", done, None, False),
    ):
        info = sweep(state=state, expected=expected)
        assert is_overshooting(info, build_results(info, runs).coverage) is answer


def test_agents_start_one_after_another_with_jitter() -> None:
    first, *others = build_ramp(5, random.Random(1))
    assert first == 0.0
    assert len(set(others)) == 4
    assert all(0.75 * RAMP_SECONDS <= wait <= 1.25 * RAMP_SECONDS for wait in others)


def test_many_agents_are_warned_about_where_there_are_limits(
    backend: ServedBackend, plain_backend: ServedBackend
) -> None:
    ours, theirs = (
        Server(Client(b.url, b.key), Viewer("", ""), embedded=False)
        for b in (backend, plain_backend)
    )
    assert warn_about_many(theirs, MANY_AGENTS) == warn_about_many(ours, 500) == ""
    assert warn_about_many(theirs, 21).startswith("21 agents send 252 heartbeats a minute; ")


@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("http://127.0.0.1:8080", False),
        ("http://127.1.2.3", False),
        ("http://localhost:1", False),
        ("http://[::1]:8080", False),
        ("http://w.localhost", False),
        ("https://api.wandb.ai", True),
        ("http://10.0.0.1", True),
        ("http://localhost.example.org", True),
    ],
)
def test_no_proxy_stands_before_this_machines_own_addresses(url: str, trusted: bool) -> None:
    assert Client(url, FOREIGN_KEY).session.trust_env is trusted
