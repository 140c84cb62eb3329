"""Which agents are started again, and which leave, to have as many as are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from deployer.launch.planning import Pace, build_environment
from deployer.model import Agent, Run, Sweep, SweepPath, Wanted
from deployer.watch.rules import (
    Replacement,
    agents_to_replace,
    choose_surplus,
    list_unheard,
)
from deployer.watch.status import Status, summarise_status

PATH = SweepPath("e", "p", "s")
CONFIG = {"method": "grid", "parameters": {"lr": {"values": [1, 2, 3, 4]}}}
NONE: Mapping[str, int] = MappingProxyType({})


def agent(name: str, state: Any = "running", code: int | None = None, reason: str = "") -> Agent:
    return Agent(name, str(PATH), state, 0.0, exit_code=code, reason=reason)


def status(*agents: Agent, runs: str = "", state: str = "RUNNING", others: int = 0) -> Status:
    """Build a status of a grid of four; `runs` has a letter for each run: f, r or p."""
    states = {"f": "finished", "r": "running", "p": "preempted", "x": "failed"}
    infos = [
        Run(str(n), "", states[c], {"lr": n}, {}, None, 0.0, None)
        for n, c in enumerate(runs, start=1)
    ]
    sweep = Sweep(PATH, "n", "t", state, CONFIG, len(infos), 4, None)
    return summarise_status(sweep, infos, agents, others, None, 100.0)


LOST = agent("c", "lost", reason="its supervisor is gone")
HOME = agent("b", "ended", 0, "the server had nothing left for this agent")
BUSY = agent("a")
STOPPED = agent("g", "ended", 143, "asked to stop")
ONE_RUN = agent("a1", "ended", 0, "it has taken its last run")


@pytest.mark.parametrize(
    ("seen", "wanted", "count"),
    [
        # Nobody is missing.
        (status(BUSY, runs="r"), 1, 0),
        # One died, and there is work for it.
        (status(BUSY, LOST, runs="r"), 2, 1),
        # Its run is still called running by the server: one run more than hands.
        (status(BUSY, LOST, runs="ffrr"), 2, 1),
        # A run came back, the only living agent is busy.
        (status(BUSY, HOME, runs="ffrp"), 2, 1),
        # What is left is in good hands.
        (status(BUSY, LOST, HOME, runs="fffr"), 3, 0),
        # Idle agents went home, then the last busy one died.
        (status(HOME, LOST, runs="fffp"), 3, 1),
        (status(LOST, agent("d", "lost"), runs="ff"), 2, 2),
        # Never more than are missing.
        (status(BUSY, LOST, runs="r"), 1, 0),
        # An agent elsewhere takes it.
        (status(BUSY, LOST, runs="fffr", others=1), 2, 0),
        # It was asked to stop by the machine.
        (status(agent("a", "ended", 143, "asked to stop"), runs="f"), 1, 1),
        # Somebody has deleted them all.
        (status(runs="f"), 2, 2),
        # The sweep hands out nothing.
        (status(LOST, runs="r", state="PAUSED"), 1, 0),
        (status(LOST, runs="r", state="FINISHED"), 1, 0),
        # Each left after its one run, and as many are left.
        (status(ONE_RUN, replace(ONE_RUN, name="a2"), runs="ff"), 2, 2),
        (status(ONE_RUN, BUSY, runs="ffff"), 2, 0),
        # Nobody is wanted.
        (status(STOPPED, LOST, runs="f"), 0, 0),
        # Another owner's agents are theirs to replace, and not counted.
        (status(BUSY, replace(LOST, foreign=True), runs="r"), 1, 0),
        (status(replace(BUSY, foreign=True), LOST, runs="r"), 1, 1),
    ],
)
def test_agents_are_replaced_where_work_needs_them(seen: Status, wanted: int, count: int) -> None:
    assert agents_to_replace(seen, Wanted(wanted), NONE).count == count


@pytest.mark.parametrize("code", [3, 78])
def test_one_that_would_only_end_again_is_avoided(code: int) -> None:
    seen = status(agent("a", "ended", code, "why"), LOST, runs="f")
    assert agents_to_replace(seen, Wanted(2), NONE) == Replacement(1, ("a",))
    alone = status(agent("a", "ended", code, "why"), runs="f")
    assert agents_to_replace(alone, Wanted(1), NONE) == Replacement(0, ("a",))


def test_one_that_keeps_dying_without_a_run_is_given_up() -> None:
    seen = status(LOST, runs="f")
    assert agents_to_replace(seen, Wanted(1), {"c": 2}).count == 1
    assert agents_to_replace(seen, Wanted(1), {"c": 3}) == Replacement(0, ("c",))


@pytest.mark.parametrize(
    ("seen", "wanted", "count"),
    [
        # One that leaves holds nobody's place, and nobody comes in its place.
        (status(BUSY, agent("s"), LOST, runs="rr"), 2, 1),
        (status(BUSY, agent("s"), runs="rr"), 1, 0),
        (status(BUSY, agent("s", "draining"), runs="rr"), 1, 0),
        (status(BUSY, agent("s", "ended", 0), runs="r"), 1, 0),
        # It would only end again, and is not wanted any more.
        (status(BUSY, agent("s", "ended", 3), LOST, runs="r"), 2, 1),
    ],
)
def test_agents_told_to_leave_are_not_missed(seen: Status, wanted: int, count: int) -> None:
    assert agents_to_replace(seen, Wanted(wanted, frozenset("s")), NONE).count == count


def test_who_leaves_is_named_with_the_number() -> None:
    wanted = Wanted(4, frozenset("a")).without("bc")
    assert wanted == Wanted(2, frozenset("abc"))
    assert wanted.without("c") == wanted  # told twice
    assert Wanted(0).without("d") == Wanted(0, frozenset("d"))


def test_more_than_are_wanted_leave_idle_ones_first() -> None:
    four = [replace(agent(n), run_id=n if n in "ad" else None) for n in "abcd"]
    leaving = {n: choose_surplus(status(*four, runs="rr"), Wanted(n)) for n in (1, 2, 3, 4, 5)}
    assert leaving == {1: ("c", "b", "d"), 2: ("c", "b"), 3: ("c",), 4: (), 5: ()}
    # Those that leave already do not count.
    assert choose_surplus(status(*four, runs="rr"), Wanted(2, frozenset("cd"))) == ()
    assert choose_surplus(status(BUSY, agent("s", "draining"), runs="r"), Wanted(1)) == ()
    # Another owner's agents are theirs.
    shared = [replace(one, foreign=one.name in "cd") for one in four]
    assert choose_surplus(status(*shared, runs="rr"), Wanted(1)) == ("b",)
    # Those that take one run leave by themselves.
    one_run = dict(build_environment(True, None, Pace()))
    leaving_soon = [replace(one, environment=one_run) for one in four]
    assert choose_surplus(status(*leaving_soon, runs="rr"), Wanted(0)) == ()


def test_who_has_not_heard_is_told_again() -> None:
    """A command that was killed has named who leaves, and has told nobody."""
    seen = status(BUSY, agent("s"), agent("t", "draining"), agent("u", "ended", 0), runs="r")
    assert list_unheard(seen, Wanted(1, frozenset("stu"))) == ("s",)
    hers = replace(agent("s"), foreign=True)
    assert list_unheard(status(hers), Wanted(1, frozenset("s"))) == ()


def test_nothing_is_decided_while_the_server_is_away() -> None:
    away = replace(status(LOST, runs="f"), trouble="cannot be reached")
    assert agents_to_replace(away, Wanted(1), NONE).count == 0


def test_an_endless_sweep_wants_all_its_agents() -> None:
    sweep = Sweep(PATH, "n", "t", "RUNNING", {**CONFIG, "method": "random"}, 0, None, None)
    seen = summarise_status(sweep, [], [BUSY, LOST, HOME], 0, None, 100.0)
    assert agents_to_replace(seen, Wanted(3), NONE).count == 2
