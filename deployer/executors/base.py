"""The interface of what agents run on; `up`, `agents` and `watch` know nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deployer.executors.checks import Check, run_checks
from deployer.executors.memory import Memory
from deployer.model import Agent, AgentPlan, Plan


@dataclass(frozen=True)
class Belongings:
    """What another owner has in a place: of sweeps, created at `created_at` or later.

    `created_at` is in seconds since the epoch.
    """

    owner: str
    agents: int
    objects: int
    sweeps: tuple[str, ...]
    created_at: float
    namespace: str = ""


class Executor(ABC):
    """Somewhere to run agents. Every method may be called again after any failure."""

    @abstractmethod
    def apply(self, plan: Plan, api_keys: dict[str, str]) -> Sequence[Agent]:
        """Start the plan's agents that are not alive yet; `api_keys` maps agent name to key."""

    def group(self, agents: Sequence[AgentPlan]) -> Sequence[Sequence[AgentPlan]]:
        """Split agents into those that start as one, as those of a pod do."""
        return [[agent] for agent in agents]

    @abstractmethod
    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        """Return agents, oldest first; of one sweep, or of all."""

    @abstractmethod
    def drain(self, names: Sequence[str]) -> None:
        """Let each agent's current run end, then let the agent leave."""

    @abstractmethod
    def stop(self, names: Sequence[str]) -> Sequence[str]:
        """Interrupt agents, wait until nothing of them is left; return those that were alive."""

    @abstractmethod
    def forget(self, sweep_path: str | None = None, *, everyone: bool = False) -> bool:
        """Delete what is kept about agents that have ended, logs included; False if nothing was.

        What other owners have stays unless `everyone` is meant.
        """

    @abstractmethod
    def log_lines(self, names: Sequence[str], follow: bool) -> Iterator[tuple[str, str]]:
        """Yield (agent name, line) in order of arrival; with `follow`, until all have ended."""

    def dismiss(self, names: Sequence[str]) -> None:
        """Mark agents as dismissed, so that no watcher starts them again once they have ended.

        A command marks them before it ends them: a watcher comes between any two steps.
        """

    def list_others(self, sweep_path: str | None = None) -> Sequence[Belongings]:
        """Return what other owners have, of one sweep or of all; nothing where there are none."""
        return ()

    def list_gpus(self) -> Sequence[str]:
        """Return the GPUs that a plan deals out; none where a scheduler does it."""
        return ()

    def read_memory(self, sweep_path: str) -> Sequence[Memory]:
        """Return what a sweep's agents take of each memory that they share, if it is known."""
        return ()

    def share_pods(self, size: int) -> None:
        """Let so many of the agents that start from now on share a pod, where there are pods."""

    def check(self, plan: Plan) -> None:
        """Ask whether the plan's agents would be taken; raises what forbids it."""
        run_checks(self.list_checks(plan))

    def list_checks(self, plan: Plan) -> Sequence[Check]:
        """Return the questions of `check`, in their order; none where all is taken."""
        return ()

    def preview(self, plan: Plan, api_keys: dict[str, str]) -> Sequence[object]:
        """Return what `apply` would send for the agents in `api_keys`."""
        return [plan]

    def longest_stop_seconds(self, names: Sequence[str]) -> float:
        """Return how long `stop` waits for these agents at most."""
        return 0.0

    def heal(self) -> Sequence[str]:
        """Do what no scheduler does for the agents listed last; return what was done."""
        return ()

    def get_usd_per_hour(self, sweep_path: str, agents: int | None = None) -> float | None:
        """Return what a sweep's agents cost, or so many; None where nobody is billed or knows."""
        return None
