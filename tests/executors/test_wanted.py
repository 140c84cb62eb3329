"""How many agents are wanted on this machine: one file for each sweep, changed by one at a time."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from deployer.config import paths
from deployer.errors import AgentError
from deployer.model import Wanted
from tests.project_files import open_local

SWEEP, OTHER = "me/project/abc", "me/other/abc"  # short ids of different projects may be equal


def test_it_is_set_read_and_withdrawn() -> None:
    executor = open_local(os.environ)
    assert executor.get_wanted(SWEEP) is None
    executor.change_wanted(SWEEP, lambda old: old and old.without("a"))  # taken down stays so
    assert executor.get_wanted(SWEEP) is None
    executor.change_wanted(SWEEP, lambda _: Wanted(4))
    executor.change_wanted(OTHER, lambda _: Wanted(1))
    executor.change_wanted(SWEEP, lambda old: old and old.without(["abc-a2"]))
    # Another process sees it.
    assert open_local(os.environ).get_wanted(SWEEP) == Wanted(3, frozenset({"abc-a2"}))
    assert executor.list_agents() == []
    executor.withdraw(SWEEP)
    assert (executor.get_wanted(SWEEP), executor.get_wanted(OTHER)) == (None, Wanted(1))
    executor.withdraw()
    assert executor.get_wanted(OTHER) is None


def test_of_commands_at_the_same_time_each_counts() -> None:
    executors = [open_local(os.environ) for _ in range(8)]
    executors[0].change_wanted(SWEEP, lambda _: Wanted(8))

    def drain(number: int) -> None:
        executors[number].change_wanted(SWEEP, lambda old: old and old.without([f"abc-a{number}"]))

    with ThreadPoolExecutor() as pool:
        list(pool.map(drain, range(8)))
    assert executors[0].get_wanted(SWEEP) == Wanted(0, frozenset(f"abc-a{n}" for n in range(8)))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"number": "many", "leaving": []}'])
def test_one_that_cannot_be_read_is_named_and_replaced_by_the_next(text: str) -> None:
    executor = open_local(os.environ)
    executor.change_wanted(SWEEP, lambda _: Wanted(2))
    [file] = paths.agents_folder().glob("*.wanted")
    file.write_text(text)
    with pytest.raises(AgentError, match="holds no number of agents") as raised:
        executor.get_wanted(SWEEP)
    assert raised.value.hint == f"rm {file}"
    executor.change_wanted(SWEEP, lambda old: Wanted(3 if old is None else 0))
    assert executor.get_wanted(SWEEP) == Wanted(3)
