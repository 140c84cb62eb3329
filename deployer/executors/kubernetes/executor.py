"""Agents in a Kubernetes cluster: N Jobs of one pod each, found by their labels alone."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from deployer.config.credentials import Owner
from deployer.config.kubernetes import GPU_PRODUCT_LABEL
from deployer.config.project import Project
from deployer.errors import AgentError, DeployerError, Finding, KubeError, collect_refusals
from deployer.executors.base import (
    Belongings,
    Check,
    Demand,
    Description,
    Executor,
    Limits,
)
from deployer.executors.kubernetes.agents.logs import follow_agents
from deployer.executors.kubernetes.agents.objects import (
    AgentObjects,
    asks_for_gpu,
    build_agent,
    group_objects,
    list_names,
    list_starting,
    name_of,
    node_of,
    path_of,
)
from deployer.executors.kubernetes.agents.removal import (
    forget_objects,
    free_lost_pods,
    list_belongings,
    remove_agents,
)
from deployer.executors.kubernetes.agents.wanted import WantedMaps, build_wanted, name_wanted
from deployer.executors.kubernetes.backend.deployment import (
    KEY_SECRET,
    is_made,
)
from deployer.executors.kubernetes.backend.host import ClusterBackendHost
from deployer.executors.kubernetes.data.mounts import list_claims
from deployer.executors.kubernetes.data.volumes import ClusterData
from deployer.executors.kubernetes.diagnose.admission import advise, check_admission
from deployer.executors.kubernetes.diagnose.case import Case, list_own
from deployer.executors.kubernetes.diagnose.doctor import examine_cluster, list_checks
from deployer.executors.kubernetes.diagnose.facts import Reference, list_references
from deployer.executors.kubernetes.diagnose.pending import PendingPods
from deployer.executors.kubernetes.gpu_nodes import GpuProducts
from deployer.executors.kubernetes.keys import KeyStore, store_keys
from deployer.executors.kubernetes.manifest_builder import NOT_BUILT, Target
from deployer.executors.kubernetes.manifests.templates import warn_about_spot, warn_about_variables
from deployer.images.code_archive import warn_about_left_out
from deployer.images.image import push_image
from deployer.kube.client import do_all
from deployer.kube.objects import (
    CONFIG_MAP,
    JOB,
    POD,
    SECRET,
    Manifest,
    build_selector,
    is_ours,
    kind_of,
    stamp_owner,
)
from deployer.model import Agent, Plan

LOG = logging.getLogger(__name__)

NAMESPACE = "NAMESPACE"  # placeholder: the kubeconfig is not read
AGENT = "agent"
LOOK_LIFE_SECONDS = 1.0  # followers of many logs share one poll of the cluster


class KubernetesExecutor(Executor):
    """Agents as Jobs, with the embedded backend and data sets in the same cluster.

    `target` is the cluster. `grows` is True if the cluster autoscales.
    """

    grows = False

    def __init__(self, name: str, project: Project, target: Target | None = None) -> None:
        super().__init__(name, project)
        self.target = target or Target(name, project)
        self.backend = ClusterBackendHost(self.target)
        self.data = ClusterData(self.target)
        self.wanted = WantedMaps(lambda: self.target.kube)
        self._sleep = time.sleep
        self._looked: tuple[float, tuple[AgentObjects, ...]] = (float("-inf"), ())

    @cached_property
    def _pending(self) -> PendingPods:
        return PendingPods(self.target.kube)

    @cached_property
    def _products(self) -> GpuProducts:
        gpu = self.target.builder.section.gpu
        return GpuProducts(self.target.kube, gpu.product_label if gpu else GPU_PRODUCT_LABEL)

    @property
    def address(self) -> Mapping[str, str]:
        """Return the names of the context and the namespace in use."""
        kube = self.target.kube
        return {"context": kube.context, "namespace": kube.namespace, "cloud": ""}

    @property
    def agents_per_pod(self) -> int:
        return self.target.builder.section.agents_per_pod

    @property
    def has_folder(self) -> bool:
        return self.project.kubernetes.code == "archive"

    @property
    def queued_seconds(self) -> float | None:
        """Return `max_time`, counted from a Job's creation; with a queue, from its admission."""
        section = self.project.kubernetes
        if section.queue or section.max_time is None:
            return None
        return section.max_time.total_seconds()

    def check(self, plan: Plan, limits: Limits) -> None:
        """Refuse what no manifest can express or the site forbids; raises ConfigError."""
        super().check(plan, limits)
        builder = self.target.builder
        builder.draft(plan, builder.with_image(NOT_BUILT), builder.named_owner)

    def describe_runs(self, plan: Plan) -> Description:
        """Warn about files left out of the archive, and spot nodes without checkpoints."""
        as_it_is = self.has_folder and not self.project.code.commit
        left_out = warn_about_left_out(self.project.folder) if as_it_is else ""
        # Without the archive, which takes time to build.
        builder = self.target.builder
        section = replace(builder.with_image(NOT_BUILT), code="image")
        job = _find_job(builder.draft(plan, section, builder.named_owner))
        doubts = (left_out, warn_about_spot(job, self._spot_pools), warn_about_variables(job))
        return Description(warnings=tuple(filter(None, (*doubts, self._warn_about_namespace()))))

    def _warn_about_namespace(self) -> str:
        path, job = self.project.kubernetes.template, self.target.builder.templates.template
        named = job["metadata"].get("namespace") if job else None
        if not named or named == self.project.kubernetes.namespace:
            return ""
        setting = f"kubernetes: {{namespace: {named}}} in deployer.yaml is"
        return f"{path}: namespace {named} is not used: {setting}"

    @property
    def _spot_pools(self) -> str:
        """Name the spot pools for the agents; empty if only the Job can tell."""
        return ""

    def provision(self, limits: Limits) -> None:
        """Build and push the image of the section `image:`, unless the registry has it."""
        project = self.project
        if project.image.repository and not project.kubernetes.image:
            push_image(project.image, project.folder, project.environment)

    def list_checks(self, plan: Plan) -> Sequence[Check]:
        """Return the checks that run before anything is created."""
        claims = list_claims(self.target.builder.section)
        return list_checks(
            self.target.kube, claims, lambda: self._build_case(plan, self.target.kube.owner)
        )

    def examine(self, demand: Demand) -> Sequence[Finding]:
        """Return the findings about the cluster for these agents."""
        return Check("cluster", self.name, lambda: self._examine(demand)).examine()

    def _examine(self, demand: Demand) -> Sequence[Finding]:
        return examine_cluster(self.target.kube, lambda: self._build_doctor_case(demand))

    def _build_doctor_case(self, demand: Demand) -> Case:
        """Return the doctor's case, even if no Job can be built; `check` reports why."""
        embedded = self.project.embedded
        case = self._open_case()
        with contextlib.suppress(DeployerError):
            case = self._build_case(demand.plan, self.target.builder.named_owner, NOT_BUILT)
            case = replace(case, backend_made=embedded and is_made(self.target.kube))
        return replace(
            case,
            pods=case.section.count_pods(demand.agents),
            backend=self.project.backend if embedded else None,
        )

    def _build_case(self, plan: Plan, owner: Owner, image: str | None = None) -> Case:
        """Return the case for `up`: the cluster, and the first agent's Job. Raises ConfigError.

        The Job has `image` if `image:` builds one; without it, the pushed image.
        """
        case = self._open_case()
        section = replace(case.section, image=self.target.builder.with_image(image).image)
        manifests = self.target.builder.draft(plan, section, owner)
        own = {*list_own(manifests, plan, owner)}
        if self.project.embedded:
            own.add(Reference(SECRET, KEY_SECRET))
        return replace(case, job=_find_job(manifests), own=frozenset(own))

    def _open_case(self) -> Case:
        project, kube = self.project, self.target.kube
        return Case(
            kube,
            replace(self.target.builder.section, namespace=kube.namespace),
            project.folder,
            data=project.data,
            image=project.image,
            environment=project.environment,
            grows=self.grows,
            on=self.name,
        )

    def preview(
        self, plan: Plan, api_keys: Mapping[str, str] | None = None, now: float = 0.0
    ) -> Sequence[object]:
        """Return the current manifests of the agents in `api_keys`.

        Without keys, contacts nothing but the registry of `image:`.
        """
        if api_keys is None:
            builder = self.target.builder
            section = builder.with_image(builder.name_image())
            return builder.draft(plan, section, builder.named_owner, now)
        if not api_keys:
            return ()
        owner, manifests = self.target.kube.owner, self._build(plan, api_keys)[1]
        wanted = build_wanted(plan, owner, self.target.kube.namespace)
        return [stamp_owner(one, owner) for one in (wanted, *manifests)]

    def apply(self, plan: Plan, api_keys: dict[str, str]) -> Sequence[Agent]:
        """Start the plan's agents that are not alive yet, and return the started agents.

        `api_keys` maps agent name to key. Reports what the cluster would reject before it creates
        anything. Raises KubeError.
        """
        agent_objects = self._look(plan.sweep_path)
        now = self.target.kube.now()
        alive = {s.name for s in agent_objects if build_agent(s, now).alive}
        missing = [agent.name for agent in plan.agents if agent.name not in alive]
        if not missing:
            return ()
        started: set[str] = set()  # without agents that another process created
        jobs = self._prepare(plan, missing, api_keys)
        try:
            do_all(lambda job: started.update(self._create(job)), jobs)
        except KubeError as error:
            if error.forbidden:
                raise advise(error, self.target.kube) from error
            raise
        return [agent for agent in self.list_agents(plan.sweep_path) if agent.name in started]

    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        """Return agents, oldest first; of one sweep, or of all."""
        agent_objects = self._look(sweep_path)
        with_gpus = {node_of(s.pod) for s in agent_objects if s.pod and asks_for_gpu(s)} - {""}
        products = self._products.read(with_gpus)
        reasons = self._pending.explain(list_starting(agent_objects))
        now = self.target.kube.now()
        return [
            build_agent(
                s,
                now,
                reasons.get(s.job["metadata"]["name"]) if s.job else None,
                products,
                self.target.kube.owner,
            )
            for s in agent_objects
        ]

    def drain(self, names: Sequence[str]) -> None:
        """Let each agent's current run end, then let the agent leave.

        The request is an annotation of the pod, which the supervisor reads as a file. An agent that
        has not started yet is deleted, unless others of its pod stay.
        """
        there, wanted = self._look(None), set(names)
        going = wanted | {s.name for s in there if s.draining}
        found = [s for s in there if s.name in wanted and s.job is not None]
        for path in {path_of(s.item) for s in found if s.mates}:  # add pod mates that are leaving
            number = self.wanted.get(path)
            going |= number.leaving if number else frozenset()
        waiting = [s for s in found if not _runs(s) and going.issuperset(s.mates)]
        do_all(self._ask_to_drain, [s for s in found if s not in waiting])
        if waiting:
            remove_agents(self.target.kube, waiting, self._sleep)

    def stop(self, names: Sequence[str]) -> Sequence[str]:
        """Interrupt agents and wait until they are gone; return those that were alive.

        All agents of a pod end together.
        """
        there, wanted = self._look(None), set(names)
        found = [s for s in there if s.name in wanted]
        now = self.target.kube.now()
        alive = [s.name for s in found if build_agent(s, now).alive]
        remove_agents(self.target.kube, found, self._sleep, there)
        return alive

    def forget(self, sweep_path: str | None = None, *, everyone: bool = False) -> bool:
        """Delete records of agents that have ended, logs and keys included.

        References of a living agent's pod stay: agents of older versions share them with other
        owners. The wanted number also stays if an agent was started meanwhile. Raises refusals
        after the rest is deleted.
        """
        agent_objects = self._look(sweep_path)
        now, owner = self.target.kube.now(), None if everyone else self.target.kube.owner
        agents = [build_agent(s, now, owner=owner) for s in agent_objects]
        over = [
            s
            for s, agent in zip(agent_objects, agents, strict=True)
            if not (agent.alive or agent.foreign)
        ]
        with collect_refusals() as refusals:
            with refusals.noted():
                remove_agents(self.target.kube, over, self._sleep)
            living = [s for s, a in zip(agent_objects, agents, strict=True) if a.alive]
            needed = {one for s in living for one in list_references(s.pod_spec)}
            numbers = [name_wanted(path_of(s.item), s.owner) for s in living if s.owner]
            needed.update(Reference(CONFIG_MAP, name) for name in numbers)
            found = forget_objects(self.target.kube, sweep_path, needed, owner)
        return found or bool(over)

    def list_others(self, sweep_path: str | None = None) -> Sequence[Belongings]:
        return list_belongings(self.target.kube, sweep_path)

    def log_lines(self, names: Sequence[str], follow: bool) -> Iterator[tuple[str, str]]:
        """Yield (agent name, line) in order of arrival; with `follow`, until all have ended."""
        return follow_agents(self.target.kube, names, follow, self._look_for_one)

    def heal(self, agents: Sequence[Agent]) -> Sequence[str]:
        """Do what only a watcher can: free agents of lost nodes.

        Kubernetes waits until a lost node returns or is deleted. Without its pod the Job starts
        another one. Agents of other owners are left alone. Returns a sentence about each repair.
        """
        own = (agent for agent in agents if not agent.foreign)
        lost = {pod: (agent.name, node) for agent in own for pod, node in agent.lost_pods}
        free_lost_pods(self.target.kube, list(lost))
        return [
            f"{name}: node {node} is lost; its pod was deleted, so that its Job can start another"
            for name, node in lost.values()
        ]

    def _prepare(
        self, plan: Plan, missing: Sequence[str], api_keys: Mapping[str, str]
    ) -> Sequence[Manifest]:
        """Create what missing agents need, delete their remains, and return their Jobs."""
        keyless = [name for name in missing if name not in api_keys]
        if keyless:
            raise AgentError(f"agent {keyless[0]} has just ended", "type the command again")
        secret, manifests = self._build(plan, {name: api_keys[name] for name in missing})
        jobs = [one for one in manifests if kind_of(one) == JOB]
        check_admission(self.target.kube, jobs[0])
        secret.write()
        for one in manifests:
            if kind_of(one) != JOB:
                # Apply what the user's template adds. Our objects may already exist, and keep their
                # owner.
                if is_ours(one):
                    self.target.kube.create_once(one)
                else:
                    self.target.kube.apply(one)
        remove_agents(self.target.kube, self._find_dead(plan.sweep_path, missing), self._sleep)
        return jobs

    def _build(
        self, plan: Plan, api_keys: Mapping[str, str]
    ) -> tuple[KeyStore, tuple[Manifest, ...]]:
        by_identity = self.target.builder.section.identity_audience is not None
        secret = store_keys(self.target.kube, plan, api_keys, by_identity)
        return secret, self.target.builder.build(self.target.kube, plan, secret.name, secret.keys)

    def _create(self, job: Manifest) -> Sequence[str]:
        """Create a Job and return its agents; none if another process created it first."""
        made = self.target.kube.create_once(job, build_selector(path_of(job), AGENT, name_of(job)))
        return (list_names(job) or [name_of(job)]) if made else ()

    def _find_dead(self, sweep_path: str, names: Sequence[str]) -> list[AgentObjects]:
        found, now = self._look(sweep_path), self.target.kube.now()
        own = [s for s in found if s.name in names and s.owner == self.target.kube.owner]
        return [s for s in own if not build_agent(s, now).alive]

    def _ask_to_drain(self, objects: AgentObjects) -> None:
        wish: Manifest = {"metadata": {"annotations": {objects.drain_annotation: "true"}}}
        for pod in objects.living_pods:
            try:
                self.target.kube.patch(POD, str(pod["metadata"]["name"]), wish)
            except KubeError as error:
                if error.status != 404:
                    raise

    def _look(self, sweep_path: str | None) -> list[AgentObjects]:
        selector = build_selector(sweep_path, AGENT)
        # Jobs first: a pod whose Job is not listed is an orphan.
        jobs = self.target.kube.list_objects(JOB, selector)
        pods = self.target.kube.list_objects(POD, selector)
        return group_objects(jobs, pods, sweep_path)

    def _find(self, names: Sequence[str]) -> list[AgentObjects]:
        wanted = set(names)
        return [s for s in self._look(None) if s.name in wanted]

    def _look_for_one(self, name: str) -> AgentObjects | None:
        looked_at, agent_objects = self._looked
        if time.monotonic() - looked_at > LOOK_LIFE_SECONDS:
            agent_objects = tuple(self._look(None))
            self._looked = (time.monotonic(), agent_objects)
        return next((s for s in agent_objects if s.name == name), None)


def _find_job(manifests: Iterable[Manifest]) -> Manifest:
    return next(one for one in manifests if kind_of(one) == JOB)


def _runs(objects: AgentObjects) -> bool:
    pod = objects.pod
    return objects.job is not None and pod is not None and pod["status"].get("phase") == "Running"
