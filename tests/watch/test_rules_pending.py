"""A watcher gives up on agents that cannot start, and on those that take too long if told so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deployer.cli.output.status import agent_to_plain
from deployer.config.causes import Cause
from deployer.errors import PERMANENT, StartFailed
from deployer.model import Agent
from deployer.waiting import CONFIRM_SECONDS
from deployer.watch.rules import PendingTimeout, list_waiting
from deployer.watch.status import Status
from tests.executors.pending import pending
from tests.watch.test_rules_restarts import BUSY, HOME, agent, status

PENDING = agent("a", "starting", reason="Unschedulable: 0/3 nodes are available")
MISSING = pending(Cause.OBJECT_MISSING, "Secret x is missing", PERMANENT)
BLOCKED = replace(agent("b", "starting", reason=MISSING.line), pending=MISSING)


def look(watch: PendingTimeout, seen: Status, seconds: float) -> None:
    """Show a watch the same status every second, for so long."""
    for now in range(int(seconds) + 1):
        watch.check(seen, now)


def test_what_no_waiting_mends_is_given_up_after_a_moment() -> None:
    seen = status(BLOCKED, replace(BLOCKED, name="c"))
    watch = PendingTimeout()
    look(watch, seen, CONFIRM_SECONDS - 1)
    with pytest.raises(StartFailed) as caught:
        watch.check(seen, CONFIRM_SECONDS)
    assert (
        caught.value.message
        == "2 agents cannot start, and waiting cannot fix that: b: Secret x is missing "
        "(permanent)"
    )
    assert caught.value.hint == ("fix it, then: deployer agents up e/p/s --replicas 2")
    assert caught.value.exit_code == 3


def test_it_has_to_stay_so() -> None:
    watch = PendingTimeout()
    for now in range(600):
        watch.check(status(BLOCKED if now % 3 else PENDING), now)


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
    look(PendingTimeout(), seen, 600)


def test_a_start_that_may_come_yet_is_waited_for_as_long_as_was_said() -> None:
    seen = status(PENDING)
    look(PendingTimeout(), seen, 600)
    watch = PendingTimeout(1800.0)
    look(watch, seen, 1799)
    with pytest.raises(StartFailed, match="no agent has started for 30 min: a: Unschedulable"):
        watch.check(seen, 1800)


def test_only_own_agents_are_given_up() -> None:
    hers = replace(BLOCKED, name="hers", foreign=True)
    seen = status(hers, replace(BLOCKED, name="his"))
    watch = PendingTimeout()
    look(watch, seen, CONFIRM_SECONDS - 1)
    with pytest.raises(StartFailed, match="1 agent cannot start, and waiting cannot fix that: his"):
        watch.check(seen, CONFIRM_SECONDS)
    assert [one.name for one in list_waiting(seen)] == ["his"]
    # Hers may still start, or she alone gives up.
    look(PendingTimeout(), status(replace(PENDING, foreign=True), BLOCKED), 600)
    look(PendingTimeout(60.0), status(hers), 600)


def test_the_limit_is_for_the_first_start() -> None:
    watch = PendingTimeout(60.0)
    watch.check(status(BUSY, runs="r"), 0.0)
    look(watch, status(PENDING), 600)


def test_an_agent_in_json_says_why_it_waits() -> None:
    pending = MISSING
    found = agent_to_plain(Agent("a", "e/p/s", "starting", 0.0, pending=pending))["pending"]
    assert found == {
        "cause": "object-missing",
        "sentence": "Secret x is missing",
        "passes": "never",
        "remedy": "",
    }
