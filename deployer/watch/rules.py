"""A watcher's decisions: bad nodes, agents to start or to drain, when to give up; pure.

An executor knows where an agent is now, a server which agent made an attempt: a watcher joins the
two. Servers that keep no attempts contribute nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from deployer.agent.settings import COUNT_VARIABLE
from deployer.errors import StartFailed
from deployer.model import Agent, Attempt, Wanted
from deployer.sweeps.results import Row
from deployer.text import format_count, format_seconds
from deployer.waiting import Confirmation
from deployer.watch.status import Status

# Failures that a node can cause. A memory limit is the same everywhere; an interrupted run or a
# lost node does not predict the next run's outcome.
BLAMED = ("own failure", "never started", "missing program", "signal")
FEWEST_RUNS = 3  # consecutive failures on the node, and successes elsewhere

AttemptKey = tuple[str, int]
UNKNOWN = ""
# The most consecutive starts without a run: the next one would end the same way.
FRUITLESS_STARTS = 3
# The agent gave up, or its key or sweep is wrong: a restart would end the same way.
FINAL_CODES = (3, 78)
HANDING_OUT = ("RUNNING", "PENDING")
AT_WORK = ("running", "draining", "stopping")


@dataclass(frozen=True)
class BadNode:
    """A node, and the consecutive runs that failed there."""

    name: str
    run_ids: tuple[str, ...]

    def sentence(self) -> str:
        """Return why it is avoided; whether it is bad for others is unknown."""
        runs = f"{len(self.run_ids)} runs in a row failed there ({', '.join(self.run_ids)})"
        return f"node {self.name} is avoided from now on: {runs}"


def locate_attempts(
    known: Mapping[AttemptKey, str] | None, rows: Iterable[Row], agents: Iterable[Agent]
) -> dict[AttemptKey, str]:
    """Return the node of each attempt: as `known`, else its agent's current one.

    At the first poll `known` is None. Attempts that have ended then have no known node, because
    their agent may have moved.
    """
    nodes = {agent.name: agent.node for agent in agents}
    found = dict(known or {})
    for row in rows:
        for attempt in row.attempts:
            key = (row.run_id, attempt.number)
            node = nodes.get(attempt.agent, UNKNOWN)
            over = attempt.cause is not None
            if key not in found and (node or over):
                found[key] = UNKNOWN if known is None and over else node
    return found


def find_bad_nodes(
    rows: Iterable[Row], nodes: Mapping[AttemptKey, str], known: Collection[str] = ()
) -> tuple[BadNode, ...]:
    """Return nodes, except `known` ones, where consecutive runs failed that succeed elsewhere.

    Each run counts once, and not if it also fails elsewhere.
    """
    by_node = _group_by_node(rows, nodes)
    bad = []
    for name in sorted(by_node.keys() - {*known}):
        others = [node for node in by_node if node != name and node not in known]
        elsewhere = [pair for node in others for pair in by_node[node]]
        failed_elsewhere = {run_id for run_id, attempt in elsewhere if _is_bad(attempt)}
        streak = _list_streak(by_node[name], failed_elsewhere)
        if len(streak) >= FEWEST_RUNS and _goes_well(elsewhere):
            bad.append(BadNode(name, streak))
    return tuple(bad)


def _group_by_node(
    rows: Iterable[Row], nodes: Mapping[AttemptKey, str]
) -> dict[str, list[tuple[str, Attempt]]]:
    """Return the informative attempts by node, oldest end first."""
    told = [
        (row.run_id, attempt)
        for row in rows
        for attempt in row.attempts
        if attempt.cause in (*BLAMED, "finished", "delivered")
    ]
    found: dict[str, list[tuple[str, Attempt]]] = {}
    for run_id, attempt in sorted(told, key=lambda pair: pair[1].ended_at or 0.0):
        if node := nodes.get((run_id, attempt.number)):
            found.setdefault(node, []).append((run_id, attempt))
    return found


def _list_streak(
    attempts: Sequence[tuple[str, Attempt]], failed_elsewhere: Collection[str]
) -> tuple[str, ...]:
    """Return the runs that failed on a node since the last success there."""
    streak: list[str] = []
    for run_id, attempt in attempts:
        if not _is_bad(attempt):
            streak.clear()
        elif run_id not in failed_elsewhere and run_id not in streak:
            streak.append(run_id)
    return tuple(streak)


def _goes_well(attempts: Sequence[tuple[str, Attempt]]) -> bool:
    """Return True if enough attempts finish, and four times as many as fail."""
    bad = sum(_is_bad(attempt) for _, attempt in attempts)
    finished = len(attempts) - bad
    return finished >= FEWEST_RUNS and finished >= 4 * bad


def _is_bad(attempt: Attempt) -> bool:
    return attempt.cause in BLAMED


# The agents that a watcher starts or drains to reach the wanted number; pure. Only the caller's own
# agents count: each owner has a separate number.


@dataclass(frozen=True)
class Replacement:
    """The number of agents to start, and the names to avoid."""

    count: int
    avoided: tuple[str, ...]


def agents_to_replace(status: Status, wanted: Wanted, fruitless: Mapping[str, int]) -> Replacement:
    """Return how many agents are missing for the work that living ones cannot take.

    `fruitless` counts, by name, the restarts of an agent without a run since. None is missing after
    the deadline.
    """
    own = [agent for agent in status.agents if not agent.foreign]
    given_up = [a.name for a in own if is_given_up(a, fruitless) and a.name not in wanted.leaving]
    missing = count_missing(own, wanted) - len(given_up)
    if status.trouble or status.out_of_time or status.sweep_state not in HANDING_OUT:
        missing = 0
    return Replacement(max(0, min(missing, count_idle_work(status, missing))), tuple(given_up))


def count_missing(agents: Iterable[Agent], wanted: Wanted) -> int:
    """Return how many of the caller's agents are missing; leaving ones count as missing."""
    staying = [a for a in agents if a.alive and not a.foreign and a.name not in wanted.leaving]
    return wanted.number - len(staying)


def choose_surplus(status: Status, wanted: Wanted) -> tuple[str, ...]:
    """Return which agents leave if too many are running: idle ones, then the youngest.

    Agents are listed oldest first. Agents that take one run leave by themselves.
    """
    own = [agent for agent in status.agents if takes_runs(agent) and not agent.foreign]
    lasting = [agent for agent in own if agent.environment.get(COUNT_VARIABLE) != "1"]
    staying = [agent for agent in reversed(lasting) if agent.name not in wanted.leaving]
    by_idleness = sorted(staying, key=lambda agent: agent.run_id is not None)
    return tuple(agent.name for agent in by_idleness[: max(0, len(staying) - wanted.number)])


def list_unheard(status: Status, wanted: Wanted) -> tuple[str, ...]:
    """Return the names of leaving agents that were not notified yet."""
    own = (agent for agent in status.agents if takes_runs(agent) and not agent.foreign)
    return tuple(agent.name for agent in own if agent.name in wanted.leaving)


def count_idle_work(status: Status, wanted: int) -> int:
    """Count the configurations that no living agent has or can take; endless sweeps want all.

    If there are more active runs than living agents, dead agents left the others.
    """
    coverage = status.results.coverage
    hands = status.living_agents + status.other_agents
    if coverage.expected is None:
        return wanted
    return coverage.waiting + coverage.running - hands


def takes_runs(agent: Agent) -> bool:
    """Return True if an agent will take more runs: it is alive and not informed to leave."""
    return agent.state in ("starting", "running")


def is_given_up(agent: Agent, fruitless: Mapping[str, int]) -> bool:
    """Return True if restarting an ended agent is useless."""
    if agent.alive:
        return False
    return agent.exit_code in FINAL_CODES or fruitless.get(agent.name, 0) >= FRUITLESS_STARTS


def find_lack(agent: Agent) -> str:
    """Return which object of the caller's own agent is missing; a new start creates it again."""
    reason = None if agent.foreign else agent.pending
    made = reason and reason.subject and reason.subject == agent.sweep_path
    return reason.message if reason and made else ""


@dataclass
class PendingTimeout:
    """Checks one status after another; `limit_seconds` is for starts that may still succeed.

    Times are in seconds since the epoch. The limit ends once an agent has started.
    """

    limit_seconds: float | None = None
    _began_at: float | None = None
    _hopeless: Confirmation = field(default_factory=Confirmation)
    _started: bool = False

    def check(self, status: Status, now: float) -> None:
        """Raise StartFailed if no agent works and none will, or not within the limit."""
        waiting = list_waiting(status)
        if not waiting:
            self._started = self._started or any(a.state in AT_WORK for a in status.agents)
            self._began_at = None
            self._hopeless.holds(False, now)
            return
        self._began_at = now if self._began_at is None else self._began_at
        # Another owner's agents are not ours to end, but they also work on the sweep once started.
        hopeless = all(agent.hopeless for agent in status.agents if agent.state == "starting")
        if self._hopeless.holds(hopeless, now):
            raise _give_up(status, waiting, "and waiting cannot fix that")
        limit = self.limit_seconds
        if limit is not None and not self._started and now - self._began_at >= limit:
            raise _give_up(status, waiting, f"for {format_seconds(limit)}")


def list_waiting(status: Status) -> Sequence[Agent]:
    """Return the caller's waiting agents, if no agent works on an open sweep."""
    if status.trouble or status.out_of_time or status.sweep_state not in HANDING_OUT:
        return ()
    if status.other_agents or any(agent.state in AT_WORK for agent in status.agents):
        return ()
    return [agent for agent in status.agents if agent.state == "starting" and not agent.foreign]


def _give_up(status: Status, waiting: Sequence[Agent], how_long: str) -> StartFailed:
    first = next((agent for agent in waiting if agent.reason), waiting[0])
    why = f": {first.reason}" if first.reason else ""
    replicas = sum(agent.state == "starting" for agent in status.agents)  # all owners' agents
    return StartFailed(
        f"{format_count(len(waiting), 'agent')} cannot start, {how_long}: {first.name}{why}"
        if first.hopeless
        else f"no agent has started {how_long}: {first.name}{why}",
        f"fix it, then: deployer agents up {status.sweep_path} --replicas {replicas}",
    )
