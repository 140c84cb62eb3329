"""The shared nouns: a sweep, its runs and their attempts, agents and their plan.

Only adapters translate database rows, GraphQL nodes, Kubernetes Jobs and folders to these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from deployer.errors import Finding

ENDED_SWEEP_STATES = ("FINISHED", "CANCELED")


class SweepPath(NamedTuple):
    """`entity/project/sweep_id`."""

    entity: str
    project: str
    sweep_id: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True)
class Sweep:
    """A sweep on its server; `state` is W&B's upper-case word, `config` the parsed file.

    `stop_reason` says why the embedded backend stopped it.
    """

    path: SweepPath
    node_id: str
    title: str
    state: str
    config: dict[str, Any]
    run_count: int
    expected: int | None
    created_at: float | None
    description: str = ""
    stop_reason: str = ""

    @property
    def ended(self) -> bool:
        """Return True if the server will never again assign runs of this sweep."""
        return self.state in ENDED_SWEEP_STATES

    @property
    def method(self) -> str:
        """Return grid, random, bayes or custom."""
        return str(self.config.get("method", ""))

    @property
    def metric_name(self) -> str | None:
        name = self._metric.get("name")
        return str(name) if name else None

    @property
    def metric_goal(self) -> str:
        """Return minimize (W&B's default) or maximize."""
        return "maximize" if self._metric.get("goal") == "maximize" else "minimize"

    @property
    def metric_target(self) -> float | None:
        target = self._metric.get("target")
        return float(target) if isinstance(target, int | float) else None

    @property
    def _metric(self) -> dict[str, Any]:
        metric = self.config.get("metric")
        return metric if isinstance(metric, dict) else {}


@dataclass(frozen=True)
class Attempt:
    """One assignment of a run to an agent; times are epoch seconds.

    `cause` says how it ended: finished, delivered (all rows are there, but its process was then
    killed, or its end was not observed), stopped, interrupted, own failure, signal, OOM, node or
    lost reply; before `wandb.init` also usage error (its command line), no run (exit code 0),
    missing program, offline, other project, own sweep, authentication error, no server or never
    started. None while it is active.
    """

    number: int
    agent: str
    assigned_at: float | None
    ended_at: float | None
    cause: str | None
    exit_code: int | None


@dataclass(frozen=True)
class Run:
    """A run; `summary` has the last value of each logged name, times are epoch seconds.

    `attempts` are empty if the server does not keep them. `heals` is the run of another sweep that
    this one replaces. `environment` are the SDK's facts about machine and code. `reused` is the
    sweep that ran it, if it also counts for another one. `apart` are the runs with data that other
    processes logged under its id.
    """

    run_id: str
    title: str
    state: str
    config: dict[str, Any]
    summary: dict[str, Any]
    exit_code: int | None
    created_at: float | None
    heartbeat_at: float | None
    node_id: str = ""
    attempts: tuple[Attempt, ...] = ()
    heals: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)
    reused: str = ""
    apart: tuple[str, ...] = ()


class Ending(StrEnum):
    """Why an agent ended, as far as decisions depend on it."""

    DRAINED = "drained"  # it was told to leave after its run


AgentState = Literal["starting", "running", "draining", "stopping", "ended", "lost"]


@dataclass(frozen=True)
class Agent:
    """One agent as its executor reports it.

    `state` is `lost` if its supervisor is gone without an exit code. `exit_code` is 0 finished, 3
    gave up, 75 its only run is assigned again, 78 bad key or missing sweep, 143 asked to stop.
    Decisions depend on `ending` and on `pending`, why it has not started; `reason` is for people.
    `run_start` is how its last run was started, `warm`, or `cold` and why, if the executor knows.
    `owner` is who started it; `foreign` agents are not the caller's own. Only clusters have owners.
    `folder` is its project folder, if the executor knows; only a cluster has `pod` and `node`.
    `started_at` and `ended_at` are seconds since the epoch. After `stop` it is gone in
    `stop_seconds` at most. `lost_pods` are its pods on nodes that do not answer, each with its
    node.
    """

    name: str
    sweep_path: str
    state: AgentState
    started_at: float
    ended_at: float | None = None
    exit_code: int | None = None
    reason: str = ""
    ending: Ending | None = None
    pending: Finding | None = None
    run_id: str | None = None
    gpu: str = ""
    node: str = ""
    pod: str = ""
    folder: str = ""
    restarts: int = 0
    process_id: int | None = None
    run_start: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    owner: str = ""
    foreign: bool = False
    stop_seconds: float = 0.0
    lost_pods: tuple[tuple[str, str], ...] = ()

    @property
    def alive(self) -> bool:
        """Return True if this agent is running or starting."""
        return self.state not in ("ended", "lost")

    @property
    def hopeless(self) -> bool:
        """Return True if it can never start, however long one waits."""
        return self.pending is not None and self.pending.transient is False


@dataclass(frozen=True)
class Wanted:
    """The number of agents that a sweep's owner wants, without those `leaving`.

    Commands set it before they start or end anything; watchers act only on it.
    """

    number: int
    leaving: frozenset[str] = frozenset()

    def without(self, names: Iterable[str]) -> Wanted:
        """Return it with these agents leaving too; they are not replaced."""
        new = {*names} - self.leaving
        return Wanted(max(0, self.number - len(new)), self.leaving | new)


@dataclass(frozen=True)
class AgentPlan:
    """One agent: its name, its GPU ids (empty on CPU) and its environment, without secrets.

    `on_gpu` agents of the sweep share its GPU, itself included.
    """

    name: str
    gpus: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    on_gpu: int = 1


@dataclass(frozen=True)
class Plan:
    """The agents of one sweep, working in `folder` with the server at `base_url`.

    New ones avoid `avoided_nodes` and leave at `deadline`, in seconds since the epoch. With
    `own_keys` the server gives each its own key, else all share the user's. `asked` is the
    resulting number of the caller's own agents.
    """

    sweep_path: str
    base_url: str
    folder: str
    agents: tuple[AgentPlan, ...]
    avoided_nodes: tuple[str, ...] = ()
    own_keys: bool = True
    deadline: float | None = None
    asked: int = 0
