"""Which dead agents are started again, and which stay away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from deployer.model import Agent, Ending, Run, Sweep, SweepPath
from deployer.watch.restarts import Replacement, agents_to_replace, choose_surplus
from deployer.watch.status import Status, summarise_status

PATH = SweepPath("e", "p", "s")
CONFIG = {"method": "grid", "parameters": {"lr": {"values": [1, 2, 3, 4]}}}
NONE: Mapping[str, int] = MappingProxyType({})


def agent(name: str, state: Any = "running", code: int | None = None, reason: str = "") -> Agent:
    return Agent(name, str(PATH), state, 0.0, exit_code=code, reason=reason)


DRAINED = replace(agent("a", "ended", 0, "drained"), ending=Ending.DRAINED)


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
GONE = replace(agent("g", "ended", 143, "asked to stop"), dismissed=True)
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
        # Several are being ended at this moment.
        (status(agent("a", "ended", 143), agent("b", "stopping"), runs="f"), 2, 0),
        # All were forgotten: somebody took them down.
        (status(runs="f"), 2, 0),
        # The sweep hands out nothing.
        (status(LOST, runs="r", state="PAUSED"), 1, 0),
        (status(LOST, runs="r", state="FINISHED"), 1, 0),
        # Each left after its one run, and as many are left.
        (status(ONE_RUN, replace(ONE_RUN, name="a2"), runs="ff"), 2, 2),
        (status(ONE_RUN, BUSY, runs="ffff"), 2, 0),
        # Drained agents stay away, whatever is left.
        (status(DRAINED, runs="f"), 1, 0),
        (status(DRAINED, LOST, runs="f"), 2, 1),
        # Not what is said decides.
        (status(replace(DRAINED, ending=None), runs="f"), 1, 1),
        # Somebody takes them down: all have ended, or one does not go yet.
        (status(GONE, replace(GONE, name="g2"), runs="f"), 2, 0),
        (status(GONE, agent("b", "stopping"), runs="f"), 3, 0),
        (status(replace(BUSY, dismissed=True), LOST, runs="f"), 2, 0),
        # Another is missing besides.
        (status(GONE, LOST, runs="f"), 2, 1),
    ],
)
def test_agents_are_replaced_where_work_needs_them(seen: Status, wanted: int, count: int) -> None:
    assert agents_to_replace(seen, wanted, NONE).count == count


@pytest.mark.parametrize("code", [3, 78])
def test_one_that_would_only_end_again_is_avoided(code: int) -> None:
    seen = status(agent("a", "ended", code, "why"), LOST, runs="f")
    assert agents_to_replace(seen, 2, NONE) == Replacement(1, ("a",))
    alone = status(agent("a", "ended", code, "why"), runs="f")
    assert agents_to_replace(alone, 1, NONE) == Replacement(0, ("a",))


def test_one_that_keeps_dying_without_a_run_is_given_up() -> None:
    seen = status(LOST, runs="f")
    assert agents_to_replace(seen, 1, {"c": 2}).count == 1
    assert agents_to_replace(seen, 1, {"c": 3}) == Replacement(0, ("c",))


def test_one_that_was_dismissed_and_forgotten_is_not_missing() -> None:
    assert agents_to_replace(status(BUSY, runs="r"), 2, NONE).count == 1
    assert agents_to_replace(status(BUSY, runs="r"), 2, NONE, {"g"}).count == 0


SENT = replace(HOME, name="s", dismissed=True)
SENT_DRAINING = replace(SENT, state="draining", exit_code=None)


def asked(count: int, *agents: Agent) -> list[Agent]:
    return [replace(agent, asked=count) for agent in agents]


@pytest.mark.parametrize(
    ("seen", "count"),
    [
        # Those that are listed are wanted, unless they were told to leave.
        (status(BUSY, LOST, runs="r"), 1),
        (status(BUSY, LOST, HOME, runs="r"), 2),
        (status(BUSY, SENT, runs="r"), 0),
        (status(BUSY, replace(LOST, dismissed=True), runs="r"), 0),
        (status(BUSY, replace(LOST, dismissed=True), HOME, runs="r"), 1),
        (status(SENT, replace(SENT, name="t"), runs="ff"), 0),
        (status(BUSY, replace(LOST, foreign=True), runs="r"), 0),
        # One that is draining holds nobody's place.
        (status(BUSY, SENT_DRAINING, LOST, runs="rr"), 1),
        (status(BUSY, SENT_DRAINING, runs="rr"), 0),
        # Those told to leave a moment ago may be going down all together.
        (status(replace(BUSY, dismissed=True), LOST, runs="r"), 0),
        # Never more than were asked for.
        (status(*asked(2, BUSY, LOST, HOME), runs="r"), 1),
        (status(*asked(1, BUSY, LOST, HOME), runs="r"), 0),
        (status(*asked(2, LOST, HOME, agent("d", "ended", 3)), runs="f"), 1),
    ],
)
def test_agents_told_to_leave_are_not_missed(seen: Status, count: int) -> None:
    assert agents_to_replace(seen, None, NONE).count == count


def test_more_than_were_asked_for_leave_idle_ones_first() -> None:
    names = "abcd"
    four = [replace(agent(n), run_id=n if n in "ad" else None) for n in names]
    leaving = {n: choose_surplus(status(*asked(n, *four), runs="rr")) for n in (1, 2, 3, 4, 5)}
    assert leaving == {1: ("c", "b", "d"), 2: ("c", "b"), 3: ("c",), 4: (), 5: ()}
    # Not by an agent that does not know, and not beside those that leave already.
    assert choose_surplus(status(*asked(1, *four[1:]), four[0])) == ()
    assert choose_surplus(status(*asked(1, replace(BUSY, run_id="r"), SENT_DRAINING))) == ()
    # Another owner's agents stay.
    shared = [replace(one, foreign=one.name in "cd") for one in asked(1, *four)]
    assert choose_surplus(status(*shared, runs="rr")) == ("b", "a")
    # A later command has asked for more.
    assert choose_surplus(status(*asked(1, *four[1:]), *asked(4, four[0]))) == ()


def test_nothing_is_decided_while_the_server_is_away() -> None:
    away = replace(status(LOST, runs="f"), trouble="cannot be reached")
    assert agents_to_replace(away, 1, NONE).count == 0


def test_an_endless_sweep_wants_all_its_agents() -> None:
    sweep = Sweep(PATH, "n", "t", "RUNNING", {**CONFIG, "method": "random"}, 0, None, None)
    seen = summarise_status(sweep, [], [BUSY, LOST, HOME], 0, None, 100.0)
    assert agents_to_replace(seen, 3, NONE).count == 2
