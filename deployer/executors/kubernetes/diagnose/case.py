"""The subject of an examination: a cluster, and the agents that will run in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from deployer.config.credentials import Owner
from deployer.config.data import DataSet
from deployer.config.image import ImageConfig
from deployer.config.kubernetes import ClusterConfig
from deployer.config.settings import BackendConfig
from deployer.executors.kubernetes.diagnose.admission import DryRun, try_job
from deployer.executors.kubernetes.diagnose.facts import Reference
from deployer.executors.kubernetes.diagnose.rights import Right, find_missing, list_rights
from deployer.executors.kubernetes.diagnose.view import View
from deployer.executors.kubernetes.keys import name_keys
from deployer.kube.client import Kube
from deployer.kube.objects import CLAIM, CONFIG_MAP, SECRET, Manifest, kind_of
from deployer.model import Plan

MADE = {one.kind: one for one in (CLAIM, CONFIG_MAP, SECRET)}


@dataclass(frozen=True)
class Case:
    """`folder` is the project's. `job` is the first of `pods` Jobs, None if none can be built.

    `own` are objects that are made with them. `backend` is the embedded backend, if it is used, and
    `backend_made` is True if it exists. `grows` is True if nodes are added on demand. `on` is the
    target's name.
    """

    kube: Kube
    section: ClusterConfig
    folder: Path = Path()
    job: Manifest | None = None
    pods: int = 1
    own: frozenset[Reference] = frozenset()
    data: tuple[DataSet, ...] = ()
    backend: BackendConfig | None = None
    backend_made: bool = False
    image: ImageConfig = field(default_factory=ImageConfig)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    grows: bool = False
    on: str = ""

    @cached_property
    def view(self) -> View:
        """A cached view of the cluster."""
        return View(self.kube)

    @cached_property
    def missing_rights(self) -> Collection[Right]:
        """The rights of `list_rights` that we lack; cached. Raises KubeError."""
        return find_missing(self.kube, list_rights(self))

    @cached_property
    def dry_run(self) -> DryRun:
        """The server's verdict on the Job and its pod. Raises KubeError."""
        assert self.job
        return try_job(self.kube, self.job)

    @property
    def namespace(self) -> str:
        return self.kube.namespace

    @property
    def pod(self) -> Manifest | None:
        return self.job["spec"]["template"] if self.job else None

    @property
    def several(self) -> str:
        return "pods" if self.section.agents_per_pod > 1 else "agents"

    @property
    def where(self) -> str:
        """Return kubectl's flags for the namespace."""
        return f"-n {self.namespace}{self.cluster}"

    @property
    def cluster(self) -> str:
        """Return kubectl's flag for the cluster, with a leading blank; empty without context."""
        return f" --context {self.kube.context}" if self.kube.context else ""


def list_own(manifests: Iterable[Manifest], plan: Plan, owner: Owner) -> Iterator[Reference]:
    """Yield what `up` creates for its agents: their ConfigMaps, claims and keys; pure."""
    yield Reference(SECRET, name_keys(plan, [agent.name for agent in plan.agents], owner)[0])
    yield from list_made(manifests)


def list_made(manifests: Iterable[Manifest]) -> Iterator[Reference]:
    """Yield the manifests' objects that pods may reference; pure."""
    for one in manifests:
        if (kind := kind_of(one)).kind in MADE:
            yield Reference(MADE[kind.kind], one["metadata"]["name"])
