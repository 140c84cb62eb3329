"""The executor interface, selected by `--on`, and the checks that each executor lists.

A new executor is a subclass of `Executor` in its own package, plus a line in the registry. Optional
abilities are objects: `backend`, `data`, `cluster`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from deployer.config.project import Project
from deployer.errors import (
    FORBIDDEN,
    ConfigError,
    DeployerError,
    Finding,
    right,
    unknown,
    warning,
    wrong,
)
from deployer.model import Agent, Plan, Wanted
from deployer.text import format_seconds

if TYPE_CHECKING:
    from deployer.config.data import DataSet
    from deployer.data.store import Store
    from deployer.kube.client import Kube


THREADS = 12  # concurrent checks
EMBEDDED_URL = "http://EMBEDDED"  # placeholder for an address unknown before `up`
# A server writes its time in whole seconds. Tokens and signed addresses tolerate a few minutes of
# skew, and ages of pods and runs mix both clocks.
MOST_SKEW_SECONDS = 60.0


@dataclass(frozen=True)
class Check:
    """One check: `ask` returns findings, or raises what prevents agents from starting.

    The doctor reports such an error with this `code` and `subject`. If there is no finding, it
    reports `fine`.
    """

    code: str
    subject: str
    ask: Callable[[], Iterable[Finding] | None]
    fine: str = ""

    def examine(self) -> tuple[Finding, ...]:
        """Return the findings."""
        try:
            found = tuple(self.ask() or ())
        except DeployerError as error:
            return tuple(self._judge(one) for one in error.findings if one.is_error)
        if not found and self.fine:
            return (right(self.code, self.subject, self.fine),)
        return found

    def _judge(self, found: Finding) -> Finding:
        """Convert an error's finding to this check's; it is unknown without permission."""
        build = unknown if found.code == FORBIDDEN else wrong
        return build(self.code, self.subject, found.text, found.fix)


def run_checks(checks: Iterable[Check]) -> None:
    """Run checks one after another; raise the first error."""
    for check in checks:
        tuple(check.ask() or ())


def examine_all(checks: Sequence[Check]) -> tuple[Finding, ...]:
    """Run checks concurrently; return the findings in the order of the checks."""
    if not checks:
        return ()
    with ThreadPoolExecutor(max_workers=min(THREADS, len(checks))) as pool:
        return tuple(one for found in pool.map(Check.examine, checks) for one in found)


@dataclass(frozen=True)
class Limits:
    """The user's limits on cost and waiting.

    `agents` is the maximum number at once, None for no limit. Agents stay for `max_seconds`.
    Without capacity, the executor retries for `capacity_seconds`.
    """

    agents: int | None = None
    max_seconds: float | None = None
    capacity_seconds: float = 0.0


@dataclass(frozen=True)
class Demand:
    """What an examination has to check: `agents` agents, the first of them in `plan`.

    `script` is the program of their runs, if it is known and exists here.
    """

    plan: Plan
    agents: int = 1
    script: Path | None = None


@dataclass(frozen=True)
class Description:
    """What to print about a plan's runs: `lines`, and `warnings`."""

    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Belongings:
    """What another owner has in a place, for sweeps; the oldest object is from `created_at`.

    `created_at` is in seconds since the epoch. `by_session`: the owner is the caller under the name
    of an earlier session.
    """

    owner: str
    agents: int
    objects: int
    sweeps: tuple[str, ...]
    created_at: float
    namespace: str = ""
    by_session: bool = False


@dataclass(frozen=True)
class HostedBackend:
    """An embedded backend in a cluster.

    Agents reach it at `url`, this process at `reached_at`, and browsers at `pages_url`. `note_user`
    records the caller as a user whose results it keeps. `cluster` is the id of its cluster:
    backends in different clusters may have the same `url`.
    """

    url: str
    reached_at: str
    pages_url: str
    key: str = field(repr=False)
    key_source: str
    note_user: Callable[[], None]
    cluster: str


@dataclass(frozen=True)
class Saved:
    """A copy of an embedded backend in a local folder.

    Agents reached it at `url` in the cluster with the id `cluster`.
    """

    folder: Path
    url: str
    cluster: str


@dataclass(frozen=True)
class Held:
    """A place that `remove` keeps without explicit consent; `foreign` if another owner has it."""

    words: str
    foreign: bool


@dataclass(frozen=True)
class Removal:
    """What `remove` may delete.

    `sure`: also what others use. `delete_data`: results too. `copied`: results with a copy may be
    deleted.
    """

    sure: bool = False
    delete_data: bool = False
    copied: bool = False


class BackendHost(ABC):
    """The embedded backend in the cluster of the agents."""

    @property
    @abstractmethod
    def url(self) -> str:
        """Return the backend's address for agents, if known before `up`."""

    @property
    @abstractmethod
    def kube(self) -> Kube:
        """Return the client of the cluster; raises ConfigError or CloudError if there is none."""

    @abstractmethod
    def prepare(self) -> None:
        """Restore what an earlier backend left before a new one is created. Raises KubeError."""

    @abstractmethod
    def open(self, *, make: bool = True) -> HostedBackend:
        """Return the embedded backend; create it with `make` if there is none."""

    @abstractmethod
    def save_results(self) -> Saved | None:
        """Copy the backend's content to a local folder and verify it; None if it is empty.

        If it raises DeployerError, there may be no copy.
        """


class DataPlaces(ABC):
    """Where runs read data sets, and write outputs if these have their own location."""

    @abstractmethod
    def open(self, data: DataSet, size_bytes: int | None = None) -> Store:
        """Open the location where runs read a data set; the caller closes it.

        A new volume holds at least `size_bytes`. Raises DeployerError.
        """

    def delete(self, data: DataSet) -> bool:
        """Delete what runs see of a data set, and the storage created for it.

        Returns True if something was deleted. Raises DeployerError.
        """
        with self.open(data) as store:
            return store.delete_all()

    def check(self) -> None:
        """Refuse data sets that runs would not find, if known before `provision`.

        Raises DeployerError.
        """

    def read_credentials(self, data: DataSet) -> Mapping[str, str] | None:
        """Return the content of a data set's Secret; None if local credentials apply."""
        return None

    def open_outputs(self) -> Store | None:
        """Open the store where runs keep outputs, by SWEEP_ID/RUN_ID.

        None if outputs are in the local state folder or are artifacts. The caller closes the store.
        Raises DeployerError.
        """
        return None


class PaidCluster(ABC):
    """The cluster that is created for a sweep, costs money, and can be deleted."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The project's cluster, named as in records, wherever it will be created."""

    @abstractmethod
    def select(self, name: str, sweep_path: str) -> None:
        """Use the cluster that a sweep's record names instead of the project's."""

    @abstractmethod
    def find(self) -> str:
        """Return the `name` of the selected cluster, empty if it does not exist.

        Raises CloudError.
        """

    @abstractmethod
    def get_usd_per_hour(self, agents: Sequence[Agent]) -> float | None:
        """Return the cluster's price with these agents; None if it is unknown."""

    @abstractmethod
    def describe_bill(self) -> Sequence[str]:
        """Return what costs money without agents, and the command that deletes it."""

    @abstractmethod
    def list_held(self, *, copied: bool) -> Sequence[Held]:
        """Return what blocks `remove` unless the user is sure; raises DeployerError.

        `copied`: the results of the caller's backend are copied first.
        """

    @abstractmethod
    def list_results(self) -> Sequence[str]:
        """Return the names of places with results that `remove` deletes with `delete_data`.

        Raises CloudError.
        """

    @abstractmethod
    def remove(self, removal: Removal) -> None:
        """Delete the cluster and everything created for it; raises CloudError."""


class WantedNumbers(ABC):
    """The wanted number of the caller's agents, for each sweep.

    A command sets the number before it starts or stops agents, because a watcher may act between
    any two steps.
    """

    @abstractmethod
    def get(self, sweep_path: str) -> Wanted | None:
        """Return the number; None after the agents are taken down."""

    @abstractmethod
    def change(self, sweep_path: str, change: Callable[[Wanted | None], Wanted | None]) -> None:
        """Replace the number by what `change` returns; None leaves it unchanged.

        `change` may be called again, also with its own result.
        """

    @abstractmethod
    def withdraw(self, sweep_path: str | None = None, *, everyone: bool = False) -> None:
        """Delete the number of one sweep or of all, so that no watcher starts an agent again.

        Numbers of other owners stay unless `everyone` is True.
        """


class Executor(ABC):
    """Where a project's agents run; created once for each command.

    The constructor contacts nothing. Methods raise ConfigError or CloudError if the place does not
    exist. Every method may be called again after any failure.

    `runs_here`: agents are local processes in the project's folder; their logs stay, and there is
    no queue for agents that do not fit. `wanted` has the wanted number of agents. Some executors
    lack some of these, which are then None: the embedded `backend`, `data` sets and outputs, a
    `cluster` that costs money, the `gpus` that a plan assigns to its agents.
    """

    runs_here = False
    wanted: WantedNumbers
    backend: BackendHost | None = None
    data: DataPlaces | None = None
    cluster: PaidCluster | None = None

    def __init__(self, name: str, project: Project) -> None:
        self.name = name
        self.project = project

    @property
    def gpus(self) -> Sequence[str] | None:
        """Return the ids of the GPUs that a plan assigns; None if a scheduler assigns them."""
        return None

    @property
    def embedded_url(self) -> str:
        """Return the embedded backend's address for agents, if known before `up`."""
        return self.backend.url if self.backend else EMBEDDED_URL

    @property
    def agents_per_pod(self) -> int:
        """Return how many agents start and end together."""
        return 1

    @property
    def place(self) -> str:
        """Return the executor's name for use in a sentence."""
        return "this machine" if self.runs_here else self.name

    @property
    def on(self) -> str:
        """Return the value of `--on`, with options, that selects this place in a command."""
        return f"{self.name}{self.project.cluster_options}"

    @property
    def address(self) -> Mapping[str, str]:
        """Return the cluster's context and namespace, or the cloud's name for it, as in records.

        Values that do not apply are empty.
        """
        return {"context": "", "namespace": "", "cloud": ""}

    @property
    def has_folder(self) -> bool:
        """Return True if agents run this folder's code, in place or as a copy."""
        return self.runs_here

    @property
    def run_environment(self) -> Mapping[str, str]:
        """Return the environment in which this machine asks a script for its flags."""
        return self.project.environment

    @property
    def queued_seconds(self) -> float | None:
        """Return after how long an agent ends, including its wait for a start; None for never."""
        return None

    # Before anything is created

    def check(self, plan: Plan, limits: Limits) -> None:
        """Refuse errors that can be found without contacting anything; raises ConfigError."""
        if limits.capacity_seconds:
            said = f"--on {self.name} creates no cluster"
            raise ConfigError("--wait-for-capacity", said, "remove it, or use --on gke")

    def describe_runs(self, plan: Plan) -> Description:
        """Return what users must know about the runs; raises ConfigError for an invalid plan."""
        return Description()

    def provision(self, limits: Limits) -> None:
        """Create what agents need before they start: their image, their cluster."""

    def list_checks(self, plan: Plan) -> Sequence[Check]:
        """Return the checks that `up` runs before it starts the plan's agents, in order."""
        return ()

    def examine(self, demand: Demand) -> Iterable[Finding]:
        """Return the doctor's findings about the place; creates nothing that stays."""
        return examine_all(self.list_checks(demand.plan))

    def preview(
        self, plan: Plan, api_keys: Mapping[str, str] | None = None, now: float = 0.0
    ) -> Sequence[object]:
        """Return what `apply` would send for the agents in `api_keys`.

        Without keys it contacts nothing and assumes that agents start at `now`.
        """
        return [plan]

    # Agents

    @abstractmethod
    def apply(self, plan: Plan, api_keys: dict[str, str]) -> Sequence[Agent]:
        """Start the plan's agents that are not alive yet, and return the started agents.

        `api_keys` maps agent name to key.
        """

    @abstractmethod
    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        """Return agents, oldest first; of one sweep, or of all."""

    def list_others(self, sweep_path: str | None = None) -> Sequence[Belongings]:
        """Return what other owners have, for one sweep or for all."""
        return ()

    @abstractmethod
    def drain(self, names: Sequence[str]) -> None:
        """Let each agent's current run end, then let the agent leave."""

    @abstractmethod
    def stop(self, names: Sequence[str]) -> Sequence[str]:
        """Interrupt agents and wait until they are gone; return those that were alive."""

    @abstractmethod
    def forget(self, sweep_path: str | None = None, *, everyone: bool = False) -> bool:
        """Delete records and logs of agents that have ended; False if there were none.

        Records of other owners stay unless `everyone` is True.
        """

    @abstractmethod
    def log_lines(self, names: Sequence[str], follow: bool) -> Iterator[tuple[str, str]]:
        """Yield (agent name, line) in order of arrival; with `follow`, until all have ended."""

    def heal(self, agents: Sequence[Agent]) -> Sequence[str]:
        """Repair these agents where no scheduler does; return a sentence about each repair."""
        return ()


def judge_clock(subject: str, ahead_seconds: float) -> Finding:
    """Return a finding about a server's clock that is `ahead_seconds` ahead of ours."""
    if abs(ahead_seconds) <= MOST_SKEW_SECONDS:
        return right("clock", subject, "its clock matches this machine's")
    way = "ahead of" if ahead_seconds > 0 else "behind"
    said = f"its clock is {format_seconds(abs(ahead_seconds))} {way} this machine's"
    return warning("clock", subject, said, "sudo timedatectl set-ntp true")
