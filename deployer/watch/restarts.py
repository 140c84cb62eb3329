"""Which agents a watcher starts, and which leave, to have as many as are wanted; pure.

Only the caller's own agents count: each owner wants a number of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deployer.agent.settings import COUNT_VARIABLE
from deployer.model import Agent, Wanted
from deployer.watch.status import Status

# As often in a row may an agent end without a run: the next try would end like these.
FRUITLESS_STARTS = 3
# It gave up, or its key or sweep is wrong: a restart would end the same way.
FINAL_CODES = (3, 78)
HANDING_OUT = ("RUNNING", "PENDING")


@dataclass(frozen=True)
class Replacement:
    """How many agents to start, none under a name in `avoided`."""

    count: int
    avoided: tuple[str, ...]


def agents_to_replace(status: Status, wanted: Wanted, fruitless: Mapping[str, int]) -> Replacement:
    """Work out how many agents are missing for the work that living ones cannot take.

    `fruitless` counts, by name, how often an agent was started again and had no run since. None is
    missing once their time is over.
    """
    own = [agent for agent in status.agents if not agent.foreign]
    given_up = [a.name for a in own if is_given_up(a, fruitless) and a.name not in wanted.leaving]
    missing = count_missing(own, wanted) - len(given_up)
    if status.trouble or status.out_of_time or status.sweep_state not in HANDING_OUT:
        missing = 0
    return Replacement(max(0, min(missing, count_idle_work(status, missing))), tuple(given_up))


def count_missing(agents: Iterable[Agent], wanted: Wanted) -> int:
    """Return how many of the caller's agents are missing; one that leaves is not there."""
    staying = [a for a in agents if a.alive and not a.foreign and a.name not in wanted.leaving]
    return wanted.number - len(staying)


def choose_surplus(status: Status, wanted: Wanted) -> tuple[str, ...]:
    """Return which agents leave since more work than are wanted: idle ones, then the youngest.

    Agents are listed oldest first. Those that take one run leave by themselves.
    """
    own = [agent for agent in status.agents if takes_runs(agent) and not agent.foreign]
    lasting = [agent for agent in own if agent.environment.get(COUNT_VARIABLE) != "1"]
    staying = [agent for agent in reversed(lasting) if agent.name not in wanted.leaving]
    by_idleness = sorted(staying, key=lambda agent: agent.run_id is not None)
    return tuple(agent.name for agent in by_idleness[: max(0, len(staying) - wanted.number)])


def list_unheard(status: Status, wanted: Wanted) -> tuple[str, ...]:
    """Return the names of agents that are to leave and have not heard of it yet."""
    own = (agent for agent in status.agents if takes_runs(agent) and not agent.foreign)
    return tuple(agent.name for agent in own if agent.name in wanted.leaving)


def count_idle_work(status: Status, wanted: int) -> int:
    """Count the configurations that no living agent has or can take; endless sweeps want all.

    An active run beyond the living agents is one that a dead agent left behind.
    """
    coverage = status.results.coverage
    hands = status.living_agents + status.other_agents
    if coverage.expected is None:
        return wanted
    return coverage.waiting + coverage.running - hands


def takes_runs(agent: Agent) -> bool:
    """Return True if an agent will take more runs: it is alive and has not heard that it leaves."""
    return agent.state in ("starting", "running")


def is_given_up(agent: Agent, fruitless: Mapping[str, int]) -> bool:
    """Tell whether an agent that has ended would only end again."""
    if agent.alive:
        return False
    return agent.exit_code in FINAL_CODES or fruitless.get(agent.name, 0) >= FRUITLESS_STARTS


def find_lack(agent: Agent) -> str:
    """Say what was made for the caller's own agent and is missing; a new start makes it again."""
    reason = None if agent.foreign else agent.pending
    made = reason and reason.subject and reason.subject == agent.sweep_path
    return reason.message if reason and made else ""
