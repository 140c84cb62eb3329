"""A watcher gives up on agents that cannot start, and on those that take too long if told so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deployer.errors import StartFailed
from deployer.executors.base import Agent, Blocked
from deployer.watch.start_timeout import BLOCKED_SECONDS, StartWatch
from deployer.watch.status import Status
from tests.watch.test_restarts import BUSY, HOME, agent, status

PENDING = agent("a", "starting", reason="Unschedulable: 0/3 nodes are available")
BLOCKED = replace(agent("b", "starting", reason="Secret x is missing"), blocked=Blocked.IMAGE)


def look(watch: StartWatch, seen: Status, seconds: float) -> None:
    """Show a watch the same status every ten seconds, for so long."""
    for now in range(0, int(seconds) + 1, 10):
        watch.check(seen, now)


def test_what_no_waiting_mends_is_given_up_after_a_moment() -> None:
    seen = status(BLOCKED, replace(BLOCKED, name="c"))
    watch = StartWatch()
    look(watch, seen, BLOCKED_SECONDS - 10)
    with pytest.raises(StartFailed) as caught:
        watch.check(seen, BLOCKED_SECONDS)
    assert (
        caught.value.message
        == "2 agents cannot start, and no waiting mends it: b: Secret x is missing"
    )
    assert caught.value.hint == (
        "mend it and type deployer watch e/p/s, or end them: deployer down e/p/s"
    )
    assert caught.value.exit_code == 3


def test_it_has_to_stay_so() -> None:
    watch = StartWatch()
    for now in range(0, 600, 10):
        watch.check(status(BLOCKED if now % 30 else PENDING), now)


@pytest.mark.parametrize(
    "seen",
    [
        status(BLOCKED, PENDING),
        status(BLOCKED, BUSY, runs="r"),
        status(BLOCKED, others=1),
        status(BLOCKED, state="PAUSED"),
        replace(status(BLOCKED), trouble="the server is away"),
        status(HOME),
    ],
)
def test_while_anybody_may_work_nothing_is_given_up(seen: Status) -> None:
    look(StartWatch(), seen, 3600)


def test_a_start_that_may_come_yet_is_waited_for_as_long_as_was_said() -> None:
    seen = status(PENDING)
    look(StartWatch(), seen, 3600)
    watch = StartWatch(1800.0)
    look(watch, seen, 1790)
    with pytest.raises(StartFailed, match="no agent has started for 30 min: a: Unschedulable"):
        watch.check(seen, 1800)


def test_the_limit_is_for_the_first_start() -> None:
    watch = StartWatch(60.0)
    watch.check(status(BUSY, runs="r"), 0.0)
    look(watch, status(PENDING), 3600)


def test_an_agent_in_json_says_what_blocks_it() -> None:
    assert Agent("a", "e/p/s", "starting", 0.0, blocked=Blocked.REFUSED).blocked == "refused"
