"""`--packing auto` in a cluster: a pod with one agent, then one with more in its place.

The number of agents in a pod is fixed when it is made, and with it each agent's part of its cores
and memory. So the next number is a new pod: the agents of the former leave after their runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from deployer.executors.base import SharesPods
from deployer.launch.packing.packer import Packer
from deployer.model import Wanted
from deployer.watch.restarts import takes_runs
from deployer.watch.status import Status


@dataclass(kw_only=True)
class PodPacker(Packer):
    """Measures the first pod; other pods follow with the number that was best.

    `total` is how many agents there shall be then, if somebody said. `size` is how many share each
    pod that is made now.
    """

    total: int | None = None
    size: int = 1
    _sent: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Begin with the measurement's number."""
        self._resize(self.measurement.size)

    @property
    def agents(self) -> int:
        """Return how many agents there shall be: those of a pod, and of all pods in the end."""
        return max(self.size, self.total or 0) if self.measurement.over else self.size

    def look(self, status: Status, now: float) -> Wanted:
        """Take in a status; return how many agents are wanted, and who makes room for others."""
        own = [agent for agent in status.agents if not agent.foreign]
        sent = any(agent.alive and agent.name in self._sent for agent in own)
        if sent or (self._sent and status.ended):  # their pod has the GPU, or none shall follow
            return Wanted(0)
        self._sent.clear()
        if not any(agent.state == "starting" for agent in own):  # it may wait in a queue
            self._measure(status, now)
        best = self.measurement.best if self.measurement.over else self.measurement.size
        if best == self.size or not _has_work(status):
            return Wanted(self.agents)
        self._resize(best)
        self._sent = {agent.name for agent in own if takes_runs(agent)}
        return Wanted(0, frozenset(self._sent))

    def _resize(self, size: int) -> None:
        """Let pods that are made from now on have so many agents."""
        self.size = size
        if isinstance(self.executor, SharesPods):
            self.executor.share_pods(size)


def _has_work(status: Status) -> bool:
    """Tell whether another pod would still have runs to begin."""
    coverage = status.results.coverage
    return not status.ended and (coverage.expected is None or coverage.waiting > 0)
