"""How many agents for one run each there are, and which names the next ones have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deployer.errors import ConfigError
from deployer.executors.registry import find_executor
from deployer.launch.check import warn_about_deadline
from deployer.launch.planning import Pace, build_environment
from deployer.launch.scaling import (
    choose_leaving,
    count_agents,
    count_left,
    list_used_names,
    stays,
)
from deployer.model import Agent, Attempt, Run
from deployer.sweeps.results import Coverage
from deployer.watch.status import join_runs
from tests.project_files import read_project

ONE = dict(build_environment(True, None, Pace()))


def agent(name: str, state: Any = "running", code: int | None = None, one: bool = True) -> Agent:
    return Agent(name, "e/p/s", state, 0.0, exit_code=code, environment=ONE if one else {})


def coverage(expected: int | None, running: int = 0, waiting: int = 0) -> Coverage:
    return Coverage(expected, 0, 0, 1, running, waiting, 0)


def test_as_many_agents_as_runs_are_left_at_most_the_bound() -> None:
    assert count_left(coverage(9, running=2, waiting=3)) == 5
    assert count_left(coverage(None, running=2)) is None
    assert (count_agents(5, None), count_agents(5, 2), count_agents(1, 2)) == (5, 2, 1)
    assert count_agents(None, 2) == 2


def test_a_sweep_without_end_needs_a_bound() -> None:
    with pytest.raises(ConfigError) as raised:
        count_agents(None, None)
    assert (
        raised.value.message
        == "--one-run-per-job: the number of runs of an endless sweep is unknown"
    )
    assert raised.value.hint == ("--run-cap N ends it, --replicas N limits how many run at a time")


def test_idle_agents_leave_first_where_only_the_server_knows_them() -> None:
    agents = [replace(agent(name), started_at=float(n)) for n, name in enumerate("abcd")]
    attempt = Attempt(1, "d", 0.0, None, None, None)
    run = Run("r", "", "running", {}, {}, None, None, None, attempts=(attempt,))
    assert choose_leaving(join_runs(agents, [run]), 2) == ("c", "b")
    assert choose_leaving(join_runs(agents, []), 3) == ("d",)
    draining = [*agents, agent("e", "draining")]
    assert choose_leaving([one for one in draining if stays(one)], 4) == ()


def test_only_an_agent_whose_run_is_settled_has_used_up_its_name() -> None:
    ends = [("s-a1", 0), ("s-a2", 75), ("s-a3", 143)]
    agents = [agent(name, "ended", code) for name, code in ends]
    agents += [agent("s-a4", "lost"), agent("s-a5"), agent("s-a6", "ended", 0, one=False)]
    assert list_used_names(agents) == ["s-a1"]


def warn(folder: Path, on: str) -> str:
    return warn_about_deadline(find_executor(read_project(folder), on))


def test_jobs_that_wait_come_nearer_to_their_end_unless_a_queue_suspends_them(
    tmp_path: Path,
) -> None:
    file = tmp_path / "deployer.yaml"
    file.write_text("kubernetes: {image: x, max_time: 12h}\n")
    assert "each Job ends after 12 h 00 min, including its wait" in warn(tmp_path, "kubernetes")
    assert warn(tmp_path, "local") == ""
    for section in ("{image: x}", "{image: x, max_time: 12h, queue: mine}"):
        file.write_text(f"kubernetes: {section}\n")
        assert warn(tmp_path, "kubernetes") == ""
