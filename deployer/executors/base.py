"""The interface of what `--on` names, and the checks that each of them lists.

A new one is a subclass of `Executor` in a package of its own, and a line in the registry. What only
some can do, they have as an object: `backend`, `data`, `cluster`.
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


THREADS = 12  # questions under way at a time
EMBEDDED_URL = "http://EMBEDDED"  # stands for an address that is not known before `up`
# A server writes its time in whole seconds. Tokens and signed addresses bear a few minutes, and
# the ages of pods and runs are told by both clocks.
MOST_SKEW_SECONDS = 60.0


@dataclass(frozen=True)
class Check:
    """Something to find out: `ask` returns findings, or raises what keeps agents from starting.

    The doctor's finding of such an error has this `code` and `subject`; if nothing was found, it
    says `fine`.
    """

    code: str
    subject: str
    ask: Callable[[], Iterable[Finding] | None]
    fine: str = ""

    def examine(self) -> tuple[Finding, ...]:
        """Return what was found."""
        try:
            found = tuple(self.ask() or ())
        except DeployerError as error:
            return tuple(self._judge(one) for one in error.findings if one.is_error)
        if not found and self.fine:
            return (right(self.code, self.subject, self.fine),)
        return found

    def _judge(self, found: Finding) -> Finding:
        """Turn an error's finding into this check's; a missing right makes it unknown."""
        build = unknown if found.code == FORBIDDEN else wrong
        return build(self.code, self.subject, found.text, found.fix)


def run_checks(checks: Iterable[Check]) -> None:
    """Ask one after another; raises what the first one says that refuses anything."""
    for check in checks:
        tuple(check.ask() or ())


def examine_all(checks: Sequence[Check]) -> tuple[Finding, ...]:
    """Ask concurrently; return what was found in the order of the checks."""
    if not checks:
        return ()
    with ThreadPoolExecutor(max_workers=min(THREADS, len(checks))) as pool:
        return tuple(one for found in pool.map(Check.examine, checks) for one in found)


@dataclass(frozen=True)
class Limits:
    """What the user will pay and wait for.

    `agents` work at once, None for as many as there may be; `max_seconds` is how long they stay;
    `capacity_seconds` is how long to ask again where all is out of stock.
    """

    agents: int | None = None
    max_seconds: float | None = None
    capacity_seconds: float = 0.0


@dataclass(frozen=True)
class Demand:
    """What a place is examined for: so many agents, the first of them in `plan`.

    `script` is the program of their runs, if it is known and here.
    """

    plan: Plan
    agents: int = 1
    script: Path | None = None


@dataclass(frozen=True)
class Description:
    """What users are told about the runs of a plan: `lines`, and doubts as `warnings`."""

    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Belongings:
    """What another owner has in a place: of sweeps, created at `created_at` or later.

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

    Agents reach it at `url`, this process at `reached_at`, and people at `pages_url`. `note_user`
    notes the caller as one whose results it keeps. `cluster` is the id of its cluster: in another
    one, a backend may have the same `url`.
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
    """A copy of an embedded backend in a folder here.

    Agents reached it at `url` in the cluster with the id `cluster`.
    """

    folder: Path
    url: str
    cluster: str


@dataclass(frozen=True)
class Held:
    """A place that is not deleted without being named: why, and whether it is another owner's."""

    words: str
    foreign: bool


@dataclass(frozen=True)
class Removal:
    """What `remove` may delete.

    `sure`: also what others use. `delete_data`: results too; those that were `copied` may go.
    """

    sure: bool = False
    delete_data: bool = False
    copied: bool = False


class BackendHost(ABC):
    """The embedded backend in the cluster in which agents run."""

    @property
    @abstractmethod
    def url(self) -> str:
        """Return the backend's address for agents, as far as it is known before `up`."""

    @property
    @abstractmethod
    def kube(self) -> Kube:
        """Return the client of the cluster; raises ConfigError or CloudError if there is none."""

    @abstractmethod
    def prepare(self) -> None:
        """Give a backend that is about to be made what an earlier one left. Raises KubeError."""

    @abstractmethod
    def open(self, *, make: bool = True) -> HostedBackend:
        """Return the embedded backend; `make` it if there is none."""

    @abstractmethod
    def save_results(self) -> Saved | None:
        """Copy what the backend holds to a folder here, and prove it; None if it holds nothing.

        Raises DeployerError; then nothing is known to be copied.
        """


class DataPlaces(ABC):
    """Where runs see data sets, and keep outputs if that is in a place of its own."""

    @abstractmethod
    def open(self, data: DataSet, size_bytes: int | None = None) -> Store:
        """Return the place where runs see a data set; whoever opens it closes it.

        What has to be made for it holds `size_bytes` at least. Raises DeployerError.
        """

    def delete(self, data: DataSet) -> bool:
        """Delete what runs see of a data set, and what was made to hold it.

        Tells whether there was anything. Raises DeployerError.
        """
        with self.open(data) as store:
            return store.delete_all()

    def check(self) -> None:
        """Refuse data sets that runs would not find, as far as it can be told before `provision`.

        Raises DeployerError.
        """

    def read_credentials(self, data: DataSet) -> Mapping[str, str] | None:
        """Return what a data set's Secret holds; None where this machine's credentials count."""
        return None

    def open_outputs(self) -> Store | None:
        """Return the place on which runs keep outputs, by SWEEP_ID/RUN_ID.

        None where they are kept in no place of its own: in the state folder of this machine, or as
        artifacts. Whoever opens it closes it. Raises DeployerError.
        """
        return None


class PaidCluster(ABC):
    """The cluster that is made for a sweep, is paid for, and can be deleted."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The cluster that the project means, as records have it, wherever it will be."""

    @abstractmethod
    def select(self, name: str, sweep_path: str) -> None:
        """Mean the one cluster that a sweep's record names, whatever the project says."""

    @abstractmethod
    def find(self) -> str:
        """Return `name` of the cluster that is meant, empty if it is not there.

        Raises CloudError.
        """

    @abstractmethod
    def get_usd_per_hour(self, agents: Sequence[Agent]) -> float | None:
        """Return the cluster's price with these agents; None if it is unknown."""

    @abstractmethod
    def describe_bill(self) -> Sequence[str]:
        """Return what exists and costs money without agents, and the command that ends it."""

    @abstractmethod
    def list_held(self, *, copied: bool) -> Sequence[Held]:
        """Return what keeps `remove` from its work unless the user is sure; raises DeployerError.

        `copied`: the results of the caller's backend will be copied before.
        """

    @abstractmethod
    def list_results(self) -> Sequence[str]:
        """Name the places with results that `remove` deletes with `delete_data`.

        Raises CloudError.
        """

    @abstractmethod
    def remove(self, removal: Removal) -> None:
        """Delete the cluster and all that was made for it; raises CloudError."""


class WantedNumbers(ABC):
    """How many of the caller's agents there shall be, for each sweep.

    A command sets the number before it starts or ends anything: a watcher comes between any two
    steps.
    """

    @abstractmethod
    def get(self, sweep_path: str) -> Wanted | None:
        """Return the number; None once the agents are taken down."""

    @abstractmethod
    def change(self, sweep_path: str, change: Callable[[Wanted | None], Wanted | None]) -> None:
        """Set the number to what `change` makes of it; None leaves it as it is.

        `change` may be asked again, also of its own answer.
        """

    @abstractmethod
    def withdraw(self, sweep_path: str | None = None, *, everyone: bool = False) -> None:
        """Forget the number, for one sweep or for all: no watcher starts an agent again.

        Those of other owners stay unless `everyone` is meant.
        """


class Executor(ABC):
    """Where a project's agents run; built once for a command.

    Nothing is contacted before a method needs it, which raises ConfigError or CloudError if there
    is no such place. Every method may be called again after any failure.

    `runs_here`: agents are processes of this machine, in the project's folder; their logs stay, and
    nobody queues what does not fit. `wanted` has how many agents there shall be. What only some
    have is None elsewhere: the embedded `backend` beside the agents, `data` sets and outputs, a
    `cluster` that is paid for, the `gpus` that a plan deals out to its agents.
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
        """Return the ids of the GPUs that a plan deals out; None where a scheduler does it."""
        return None

    @property
    def embedded_url(self) -> str:
        """Return the embedded backend's address for agents, as far as it is known before `up`."""
        return self.backend.url if self.backend else EMBEDDED_URL

    @property
    def agents_per_pod(self) -> int:
        """Return how many agents start and end as one."""
        return 1

    @property
    def place(self) -> str:
        """Return its name in a sentence."""
        return "this machine" if self.runs_here else self.name

    @property
    def on(self) -> str:
        """Return what stands behind `--on` in a command that means this place."""
        return f"{self.name}{self.project.cluster_options}"

    @property
    def address(self) -> Mapping[str, str]:
        """Return the cluster's context and namespace, or the cloud's name for it, as records do.

        Each is empty where there is none.
        """
        return {"context": "", "namespace": "", "cloud": ""}

    @property
    def has_folder(self) -> bool:
        """Return whether agents work on this folder's code, here or as a copy of it."""
        return self.runs_here

    @property
    def run_environment(self) -> Mapping[str, str]:
        """Return the environment in which this machine asks a script about its flags."""
        return self.project.environment

    @property
    def queued_seconds(self) -> float | None:
        """Return after how long an agent ends, the wait for its start included; None for never."""
        return None

    # Before anything is made

    def check(self, plan: Plan, limits: Limits) -> None:
        """Refuse what is wrong without contacting anything; raises ConfigError."""
        if limits.capacity_seconds:
            said = f"--on {self.name} creates no cluster"
            raise ConfigError("--wait-for-capacity", said, "remove it, or use --on gke")

    def describe_runs(self, plan: Plan) -> Description:
        """Return what users must know of the plan's runs; raises ConfigError if it is bad."""
        return Description()

    def provision(self, limits: Limits) -> None:
        """Make what agents need before they start: their image, their cluster."""

    def list_checks(self, plan: Plan) -> Sequence[Check]:
        """Return what `up` asks the place before it starts the plan's agents, in its order."""
        return ()

    def examine(self, demand: Demand) -> Iterable[Finding]:
        """Return what the doctor finds right and wrong with the place; leaves nothing behind."""
        return examine_all(self.list_checks(demand.plan))

    def preview(
        self, plan: Plan, api_keys: Mapping[str, str] | None = None, now: float = 0.0
    ) -> Sequence[object]:
        """Return what `apply` would send for the agents in `api_keys`.

        Without keys nothing is contacted, and the agents would start at `now`.
        """
        return [plan]

    # Agents

    @abstractmethod
    def apply(self, plan: Plan, api_keys: dict[str, str]) -> Sequence[Agent]:
        """Start the plan's agents that are not alive yet, and return those that it has started.

        `api_keys` maps agent name to key.
        """

    @abstractmethod
    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        """Return agents, oldest first; of one sweep, or of all."""

    def list_others(self, sweep_path: str | None = None) -> Sequence[Belongings]:
        """Return what other owners have, of one sweep or of all; nothing where there are none."""
        return ()

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

    def heal(self, agents: Sequence[Agent]) -> Sequence[str]:
        """Do for these agents what no scheduler does; return what was done."""
        return ()


def judge_clock(subject: str, ahead_seconds: float) -> Finding:
    """Say whether a server's clock, so many seconds ahead of ours, is near enough."""
    if abs(ahead_seconds) <= MOST_SKEW_SECONDS:
        return right("clock", subject, "its clock is this machine's")
    way = "ahead of" if ahead_seconds > 0 else "behind"
    said = f"its clock is {format_seconds(abs(ahead_seconds))} {way} this machine's"
    return warning("clock", subject, said, "sudo timedatectl set-ntp true")
