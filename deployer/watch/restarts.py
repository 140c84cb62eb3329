"""Which agents that died a watcher starts again, and which leave since they are too many; pure.

An agent that is listed and was not dismissed is wanted, so every watcher, whenever it was started,
reads from the same list how many there shall be.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from deployer.config.causes import Cause
from deployer.model import Agent, Ending
from deployer.watch.status import AgentStatus, Status

# As often in a row may an agent end without a run: the next try would end like these.
FRUITLESS_STARTS = 3
# It gave up, or its key or sweep is wrong: a restart would end the same way.
FINAL_CODES = (3, 78)
ASKED_TO_STOP = 143
HANDING_OUT = ("RUNNING", "PENDING")


@dataclass(frozen=True)
class Replacement:
    """How many agents to start, none under a name in `avoided`."""

    count: int
    avoided: tuple[str, ...]


def agents_to_replace(
    status: Status, wanted: int | None, fruitless: Mapping[str, int], gone: Collection[str] = ()
) -> Replacement:
    """Work out how many agents are missing for the work that living ones cannot take.

    Without `wanted` those are missing that have ended and were not dismissed, at most as many as
    were asked for. `wanted` counts dismissed agents too, also those in `gone`, which their executor
    has forgotten. `fruitless` counts, by name, how often an agent was started again and had no run
    since. None is missing once their time is over or their executor has forgotten all.
    """
    dismissed = {*gone, *(a.name for a in status.agents if is_dismissed(a))}
    given_up = (a.name for a in status.agents if is_given_up(a, fruitless))
    avoided = tuple(name for name in given_up if name not in dismissed)
    if status.trouble or status.out_of_time or status.sweep_state not in HANDING_OUT:
        return Replacement(0, avoided)
    if wanted is None:
        missing = _count_missing(status, avoided)
    else:
        missing = wanted - status.living_agents - len(dismissed) - len(avoided)
    if not status.agents or missing <= 0 or _is_being_stopped(status):
        return Replacement(0, avoided)
    return Replacement(max(0, min(missing, count_idle_work(status, missing))), avoided)


def _count_missing(status: Status, avoided: Collection[str]) -> int:
    own = (a for a in status.agents if a.state in ("ended", "lost") and not a.foreign)
    missing = sum(agent.name not in avoided and not is_dismissed(agent) for agent in own)
    asked = count_asked(status)
    staying = sum(map(takes_runs, status.agents))
    return missing if asked is None else min(missing, asked - staying - len(avoided))


def count_asked(status: Status) -> int | None:
    """Return how many agents there were to be at most; None if not all of them know."""
    numbers = [agent.asked for agent in status.agents if not agent.dismissed]
    return max(numbers) if numbers and all(numbers) else None


def choose_surplus(status: Status) -> tuple[str, ...]:
    """Return which agents leave since more work than were asked for: idle ones, then the youngest.

    Agents are listed oldest first. Another owner's agents count, and stay.
    """
    asked = count_asked(status)
    if status.trouble or asked is None:
        return ()
    staying = [agent for agent in reversed(status.agents) if takes_runs(agent)]
    own = [agent for agent in staying if not agent.foreign]
    by_idleness = sorted(own, key=lambda agent: agent.run_id is not None)
    return tuple(agent.name for agent in by_idleness[: max(0, len(staying) - asked)])


def count_idle_work(status: Status, wanted: int) -> int:
    """Count the configurations that no living agent has or can take; endless sweeps want all.

    An active run beyond the living agents is one that a dead agent left behind.
    """
    coverage = status.results.coverage
    hands = status.living_agents + status.other_agents
    if coverage.expected is None:
        return wanted
    return coverage.waiting + coverage.running - hands


def takes_runs(agent: AgentStatus) -> bool:
    """Return True if an agent will take more runs: it is alive and was not told to leave."""
    return agent.state in ("starting", "running") and not agent.dismissed


def is_given_up(agent: AgentStatus, fruitless: Mapping[str, int]) -> bool:
    """Tell whether an agent that has ended would only end again."""
    if agent.state not in ("ended", "lost"):
        return False
    return agent.exit_code in FINAL_CODES or fruitless.get(agent.name, 0) >= FRUITLESS_STARTS


def find_lack(agent: Agent | AgentStatus) -> str:
    """Say what was made for the caller's own agent and is missing; a new start makes it again."""
    reason = None if agent.foreign else agent.pending
    return reason.message if reason and reason.code == Cause.MADE_MISSING else ""


def is_dismissed(agent: AgentStatus) -> bool:
    """Return True if an agent has ended and was told to leave before or since."""
    if agent.state not in ("ended", "lost"):
        return False
    return agent.dismissed or agent.ending is Ending.DRAINED


def _is_being_stopped(status: Status) -> bool:
    """Tell whether agents are being ended at this moment: one is, and others were asked too."""
    if any(a.dismissed and a.state not in ("ended", "lost", "draining") for a in status.agents):
        return True
    return any(agent.state == "stopping" for agent in status.agents) and any(
        agent.exit_code == ASKED_TO_STOP for agent in status.agents
    )
