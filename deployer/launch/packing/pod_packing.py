"""`--packing auto` in a cluster: a pod with one agent, then one with more in its place.

The number of agents in a pod is fixed when it is made, and with it each agent's part of its cores
and memory. So the next number is a new pod: the agents of the former leave after their runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from deployer.executors.base import SharesPods
from deployer.launch.packing.packer import Packer
from deployer.watch.restarts import is_dismissed, takes_runs
from deployer.watch.status import AgentStatus, Status


@dataclass(kw_only=True)
class PodPacker(Packer):
    """Measures the first pod; other pods follow with the number that was best.

    `total` is how many agents there shall be then, if somebody said. `size` is how many share each
    pod that is made now.
    """

    total: int | None = None
    size: int = 1

    def __post_init__(self) -> None:
        """Make pods as large as they were left."""
        measurement = self.measurement
        self.resize(measurement.best if measurement.over else measurement.size)

    @property
    def agents(self) -> int:
        """Return how many agents take runs: those of a pod, and of all pods in the end."""
        if not self.measurement.over:
            return self.size
        return max(self.size, self.total or 0)

    @property
    def beginning(self) -> int:
        """Return how many agents are to begin."""
        return self.agents

    def resize(self, size: int) -> None:
        """Let pods that are made from now on have so many agents."""
        self.size = size
        if isinstance(self.executor, SharesPods):
            self.executor.share_pods(size)

    def look(self, status: Status, now: float) -> int:
        """Take in a status; return how many agents there shall be, those that leave included."""
        taking = [agent for agent in status.agents if takes_runs(agent)]
        self.drained.difference_update(agent.name for agent in taking)  # a name is used again
        sent = [agent for agent in status.agents if agent.name in self.drained]
        away = sum(agent.state == "draining" or is_dismissed(agent) for agent in sent)
        if any(agent.state == "draining" for agent in sent):
            return len(taking) + away  # their pod has the GPU
        if not any(agent.state == "starting" for agent in taking):  # it may wait in a queue
            self._measure(status, now)
        wanted = self.measurement.best if self.measurement.over else self.measurement.size
        if wanted != self.size and self._has_work(status):
            self._make_room(taking)
            self.resize(wanted)
            return len(taking) + away
        return self.agents + away

    def _has_work(self, status: Status) -> bool:
        """Tell whether another pod would still have runs to begin."""
        coverage = status.results.coverage
        return not status.ended and (coverage.expected is None or coverage.waiting > 0)

    def _make_room(self, taking: list[AgentStatus]) -> None:
        names = tuple(agent.name for agent in taking if not agent.foreign)
        self.drained.update(names)  # also if the cluster fails before all have heard of it
        self._remember()
        self.executor.drain(names)

    def _drain(self) -> None:
        """Leave it to the next look, which replaces the pod."""
