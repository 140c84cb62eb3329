"""What `--on` names, before it is there: what agents need in it, what it costs, how it is opened.

An executor is what `open` returns. A new one overrides what differs; see `registry.register`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.base import Executor
from deployer.executors.checks import examine_all
from deployer.findings import Finding
from deployer.model import Plan

if TYPE_CHECKING:
    from deployer.config.sections.data import DataSet
    from deployer.data.store import Store
    from deployer.kube.client import Kube

EMBEDDED_URL = "http://EMBEDDED"  # stands for an address that is not known before `up`


@dataclass(frozen=True)
class Limits:
    """What the user will pay and wait for.

    `agents` work at once, None for as many as there may be; `max_seconds` is how long they stay;
    `capacity_seconds` is how long to ask again where all is out of stock. `bayes`: the target's
    embedded backend searches by a model, for which its image needs modules.
    """

    agents: int | None = None
    max_seconds: float | None = None
    capacity_seconds: float = 0.0
    bayes: bool = False


@dataclass(frozen=True)
class HostedBackend:
    """An embedded backend inside a target.

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
    """A copy of a target's embedded backend in a folder here.

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


@dataclass(frozen=True)
class Surroundings:
    """What agents work with, as far as it is known from here; empty where an image says it.

    `packages` maps names to versions; `gpus` are in nvidia-smi's words, the driver's version too.
    """

    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Demand:
    """What a target is examined for: so many agents, the first of them in `plan`.

    `script` is the program of their runs, if it is known and here. `bayes` is as in `Limits`.
    """

    plan: Plan
    agents: int = 1
    script: Path | None = None
    bayes: bool = False


class Target(ABC):
    """One name of `--on` for one project; the defaults suit an executor that needs no preparation.

    `runs_here`: agents are processes of this machine, in the project's folder, their logs stay, and
    nobody queues what does not fit. `packs`: several may share a pod. `hosts_backend`: the embedded
    backend runs in the target, too. `disposable`: its cluster is made for the sweep, is paid for,
    and can be deleted.
    """

    runs_here = False
    packs = False
    hosts_backend = False
    disposable = False

    def __init__(self, name: str, project: Project) -> None:
        self.name = name
        self.project = project

    @property
    def place(self) -> str:
        """Return the target's name in a sentence."""
        return "this machine" if self.runs_here else self.name

    @abstractmethod
    def open(self) -> Executor:
        """Return the executor; raises ConfigError, CloudError if it is not there."""

    def check(self, plan: Plan, limits: Limits) -> None:
        """Refuse what is wrong without contacting anything; raises ConfigError."""
        if limits.capacity_seconds:
            said = f"agents on {self.name} have no cluster to be made"
            raise ConfigError("--wait-for-capacity", said, "leave it out, or use --on gke")

    def examine(self, demand: Demand) -> Sequence[Finding]:
        """Return what is right and wrong with the place, leaving nothing behind."""
        return examine_all([one.question() for one in self.open().list_checks(demand.plan)])

    def mend(self, finding: Finding) -> bool:
        """Fix what a finding names where that is safe, log it, and return True if it was fixed."""
        return False

    def provision(self, limits: Limits) -> None:
        """Make what agents need before they start: their image, their cluster."""

    def preview(self, plan: Plan, now: float) -> Sequence[object]:
        """Return what `up` would send for a plan, without contacting the target."""
        return [plan]

    @property
    def backend_url(self) -> str:
        """Return the embedded backend's address for agents, as far as it is known before `up`."""
        return EMBEDDED_URL

    def list_warnings(self, plan: Plan) -> Sequence[str]:
        """Return what is doubtful about a plan, such as files of the folder that agents lack."""
        return ()

    def describe_runs(self) -> Sequence[str]:
        """Return what users must know of the runs' environment; raises ConfigError if it is bad."""
        return ()

    @property
    def has_folder(self) -> bool:
        """Tell whether agents work on this folder's code, here or as a copy of it."""
        return self.runs_here

    @property
    def run_environment(self) -> Mapping[str, str]:
        """Return the environment in which this machine asks a script about its flags."""
        return self.project.environment

    @property
    def queued_seconds(self) -> float | None:
        """Return after how long an agent ends, the wait for its start included."""
        return None

    def read_surroundings(self) -> Surroundings:
        """Return which Python, packages and driver agents will have."""
        return Surroundings()

    def describe_bill(self) -> Sequence[str]:
        """Return what exists and costs money without agents, and the command that ends it."""
        return ()

    def open_kube(self, namespace: str | None = None) -> Kube:
        """Return the client of the target's cluster; raises ConfigError if it is none."""
        raise ConfigError("--on", f"{self.name} is no cluster", "--on kubernetes or --on gke")

    def prepare_backend(self, kube: Kube) -> None:
        """Give a backend that is about to be made what an earlier one left. Raises KubeError."""

    def check_bayes(self) -> None:
        """Refuse a backend that is not made yet and could not search by a model: ImageError."""

    def open_backend(self, *, make: bool = True) -> HostedBackend:
        """Return the embedded backend in the target; `make` it if there is none."""
        raise ConfigError("--on", f"{self.name} hosts no backend", "--on kubernetes or --on gke")

    def save_results(self) -> Saved | None:
        """Copy what an embedded backend in the target holds to a folder here, and prove it.

        None if it holds nothing. Raises DeployerError; then nothing is known to be copied.
        """
        return None

    def open_data(self, data: DataSet, size_bytes: int | None = None) -> Store:
        """Return the place where this target's runs see a data set; whoever opens it closes it.

        What has to be made for it holds `size_bytes` at least. Raises DeployerError.
        """
        said = f"{self.name} keeps no data sets"
        raise ConfigError("--on", said, "--on local or --on kubernetes")

    def delete_data(self, data: DataSet) -> bool:
        """Delete what runs see of a data set, and what was made to hold it.

        Tells whether there was anything. Raises DeployerError.
        """
        with self.open_data(data) as store:
            return store.delete_all()

    def read_credentials(self, data: DataSet) -> Mapping[str, str] | None:
        """Return what a data set's Secret holds; None where this machine's credentials count."""
        return None

    def open_outputs(self) -> Store | None:
        """Return the place on which runs of this target keep outputs, by SWEEP_ID/RUN_ID.

        None where they are kept in no place of its own: in the state folder of this machine, in an
        object store, as artifacts. Whoever opens it closes it. Raises DeployerError.
        """
        return None

    def check_data(self) -> None:
        """Refuse data sets that runs would not find, as far as it can be told before `provision`.

        Raises DeployerError.
        """

    def list_held(self, *, copied: bool) -> Sequence[Held]:
        """Return what keeps `remove` from its work unless the user is sure; raises DeployerError.

        `copied`: the results of the caller's backend will be copied before.
        """
        return ()

    def list_results(self) -> Sequence[str]:
        """Name the places with results that `remove` deletes with `delete_data`.

        Raises CloudError.
        """
        return ()

    def remove(self, removal: Removal) -> None:
        """Delete what was made for the project, as its cluster; raises CloudError."""
        raise ConfigError("--cluster", f"no cluster was made on {self.name}", "--on gke")
