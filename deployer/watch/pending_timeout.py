"""When to give up waiting for agents that do not start; pure but for what it remembers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from deployer.errors import StartFailed
from deployer.model import Agent
from deployer.text import format_count, format_seconds
from deployer.waiting import Confirmation
from deployer.watch.restarts import HANDING_OUT
from deployer.watch.status import Status

AT_WORK = ("running", "draining", "stopping")


@dataclass
class PendingTimeout:
    """Looks at one status after another; `limit_seconds` is for starts that may come yet.

    Times are in seconds since the epoch. Once an agent has started, the limit is over.
    """

    limit_seconds: float | None = None
    _began_at: float | None = None
    _hopeless: Confirmation = field(default_factory=Confirmation)
    _started: bool = False

    def check(self, status: Status, now: float) -> None:
        """Raise StartFailed if nobody works and nobody will, or not within the limit."""
        waiting = list_waiting(status)
        if not waiting:
            self._started = self._started or any(a.state in AT_WORK for a in status.agents)
            self._began_at = None
            self._hopeless.holds(False, now)
            return
        self._began_at = now if self._began_at is None else self._began_at
        # Another owner's agents are not ours to end, but one that starts works on the sweep, too.
        hopeless = all(agent.hopeless for agent in status.agents if agent.state == "starting")
        if self._hopeless.holds(hopeless, now):
            raise _give_up(status, waiting, "and waiting cannot fix that")
        limit = self.limit_seconds
        if limit is not None and not self._started and now - self._began_at >= limit:
            raise _give_up(status, waiting, f"for {format_seconds(limit)}")


def list_waiting(status: Status) -> Sequence[Agent]:
    """Return the caller's agents that wait, if no agent works on a sweep that goes on."""
    if status.trouble or status.out_of_time or status.sweep_state not in HANDING_OUT:
        return ()
    if status.other_agents or any(agent.state in AT_WORK for agent in status.agents):
        return ()
    return [agent for agent in status.agents if agent.state == "starting" and not agent.foreign]


def _give_up(status: Status, waiting: Sequence[Agent], how_long: str) -> StartFailed:
    first = next((agent for agent in waiting if agent.reason), waiting[0])
    why = f": {first.reason}" if first.reason else ""
    replicas = sum(agent.state == "starting" for agent in status.agents)  # in all, of every owner
    return StartFailed(
        f"{format_count(len(waiting), 'agent')} cannot start, {how_long}: {first.name}{why}"
        if first.hopeless
        else f"no agent has started {how_long}: {first.name}{why}",
        f"fix it, then: deployer agents up {status.sweep_path} --replicas {replicas}",
    )
