"""Which agents that died a watcher starts again; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from deployer.executors.base import Ending
from deployer.watch.status import AgentStatus, Status

# As often in a row may an agent end without a run: the next try would end like these.
FRUITLESS_STARTS = 3
# It gave up, its script refuses the sweep, or its key or sweep is wrong: it would say so again.
FINAL_CODES = (3, 65, 78)
ASKED_TO_STOP = 143
HANDING_OUT = ("RUNNING", "PENDING")


@dataclass(frozen=True)
class Replacement:
    """How many agents to start, none under a name in `avoided`."""

    count: int
    avoided: tuple[str, ...]


def agents_to_replace(
    status: Status, wanted: int, fruitless: Mapping[str, int], gone: Collection[str] = ()
) -> Replacement:
    """Work out how many agents are missing for the work that living ones cannot take.

    `fruitless` counts, by name, how often an agent was started again and had no run since. Agents
    that were dismissed or drained stay away, also those in `gone`, which their executor has
    forgotten; so do all once their time is over or their executor has forgotten all.
    """
    dismissed = {*gone, *(a.name for a in status.agents if is_dismissed(a))}
    given_up = (a.name for a in status.agents if is_given_up(a, fruitless))
    avoided = tuple(name for name in given_up if name not in dismissed)
    if status.trouble or status.out_of_time or status.sweep_state not in HANDING_OUT:
        return Replacement(0, avoided)
    missing = wanted - status.living_agents - len(dismissed) - len(avoided)
    if not status.agents or missing <= 0 or _is_being_stopped(status):
        return Replacement(0, avoided)
    return Replacement(max(0, min(missing, count_idle_work(status, wanted))), avoided)


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
    """Tell whether an agent will take more runs: it is alive and was not asked to leave."""
    return agent.state in ("starting", "running")


def is_given_up(agent: AgentStatus, fruitless: Mapping[str, int]) -> bool:
    """Tell whether an agent that has ended would only end again."""
    if agent.state not in ("ended", "lost"):
        return False
    return agent.exit_code in FINAL_CODES or fruitless.get(agent.name, 0) >= FRUITLESS_STARTS


def is_dismissed(agent: AgentStatus) -> bool:
    """Tell whether somebody sent this agent away: drained it, or took it down."""
    if agent.state not in ("ended", "lost"):
        return False
    return agent.dismissed or agent.ending is Ending.DRAINED


def _is_being_stopped(status: Status) -> bool:
    """Tell whether agents are being ended at this moment: one is, and others were asked too."""
    if any(agent.dismissed and agent.state not in ("ended", "lost") for agent in status.agents):
        return True
    return any(agent.state == "stopping" for agent in status.agents) and any(
        agent.exit_code == ASKED_TO_STOP for agent in status.agents
    )
