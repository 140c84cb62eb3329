"""How many agents are wanted on this machine: one file for each sweep, changed by one at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deployer.config import paths
from deployer.errors import AgentError
from deployer.executors.local.executor import LocalExecutor
from deployer.launch.scaling import scale_down
from deployer.model import Agent, SweepPath, Wanted
from tests.project_files import open_local, read_project

SWEEP, OTHER = "me/project/abc", "me/other/abc"  # short ids of different projects may be equal


def test_it_is_set_read_and_withdrawn() -> None:
    executor = open_local(os.environ)
    assert executor.wanted.get(SWEEP) is None
    executor.wanted.change(SWEEP, lambda old: old and old.without("a"))  # taken down stays so
    assert executor.wanted.get(SWEEP) is None
    executor.wanted.change(SWEEP, lambda _: Wanted(4))
    executor.wanted.change(OTHER, lambda _: Wanted(1))
    executor.wanted.change(SWEEP, lambda old: old and old.without(["abc-a2"]))
    # Another process sees it.
    assert open_local(os.environ).wanted.get(SWEEP) == Wanted(3, frozenset({"abc-a2"}))
    assert executor.list_agents() == []
    executor.wanted.withdraw(SWEEP)
    assert (executor.wanted.get(SWEEP), executor.wanted.get(OTHER)) == (None, Wanted(1))
    executor.wanted.withdraw()
    assert executor.wanted.get(OTHER) is None


def test_of_commands_at_the_same_time_each_counts() -> None:
    executors = [open_local(os.environ) for _ in range(8)]
    executors[0].wanted.change(SWEEP, lambda _: Wanted(8))

    def drain(number: int) -> None:
        executors[number].wanted.change(SWEEP, lambda old: old and old.without([f"abc-a{number}"]))

    with ThreadPoolExecutor() as pool:
        list(pool.map(drain, range(8)))
    assert executors[0].wanted.get(SWEEP) == Wanted(0, frozenset(f"abc-a{n}" for n in range(8)))


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", '{"number": "many", "leaving": []}', '{"number": -1, "leaving": []}'),
        *('{"number": true, "leaving": []}', '{"number": 1001, "leaving": []}'),
    ],
)
def test_one_that_cannot_be_read_is_named_and_replaced_by_the_next(text: str) -> None:
    executor = open_local(os.environ)
    executor.wanted.change(SWEEP, lambda _: Wanted(2))
    [file] = paths.agents_folder().glob("*.wanted")
    file.write_text(text)
    with pytest.raises(AgentError, match="does not contain a number of agents") as raised:
        executor.wanted.get(SWEEP)
    assert raised.value.hint == f"deployer agents up {SWEEP} --replicas N"
    executor.wanted.change(SWEEP, lambda old: Wanted(3 if old is None else 0))
    assert executor.wanted.get(SWEEP) == Wanted(3)


def test_agents_that_give_up_and_are_not_asked_for_count_no_more(tmp_path: Path) -> None:
    """They would keep others from being started again."""
    executor = Ended(tmp_path)
    executor.wanted.change(SWEEP, lambda _: Wanted(3))
    assert scale_down(executor, SweepPath(*SWEEP.split("/")), 1) == ("abc-a2",)
    assert executor.wanted.get(SWEEP) == Wanted(1, frozenset({"abc-a2", "abc-a3"}))
    # A later number, also where the earlier one cannot be read.
    [file] = paths.agents_folder().glob("*.wanted")
    file.write_text("")
    assert scale_down(executor, SweepPath(*SWEEP.split("/")), 2) == ()
    assert executor.wanted.get(SWEEP) == Wanted(2, frozenset({"abc-a3"}))


class Ended(LocalExecutor):
    """Two agents at work and one that has given up."""

    def __init__(self, folder: Path) -> None:
        super().__init__("local", read_project(folder))
        self.drained: list[str] = []

    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        path = sweep_path or SWEEP
        return [
            Agent("abc-a1", path, "running", 0.0, run_id="r"),
            Agent("abc-a2", path, "running", 1.0),
            Agent("abc-a3", path, "ended", 2.0, exit_code=3),
        ]

    def drain(self, names: Sequence[str]) -> None:
        self.drained += names
