"""Agents in a Kubernetes cluster: N Jobs of one pod each, found by their labels alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from deployer.config.causes import Cause
from deployer.config.sections.data import DataSet
from deployer.config.sections.kubernetes import ClusterConfig
from deployer.config.sections.kubernetes_parts import GPU_PRODUCT_LABEL
from deployer.errors import AgentError, KubeError, collect_refusals
from deployer.executors.base import Belongings, Executor
from deployer.executors.checks import Check
from deployer.executors.kubernetes.agents.agent_logs import follow_agents
from deployer.executors.kubernetes.agents.agent_objects import (
    AgentObjects,
    annotations_of,
    asks_for_gpu,
    build_agent,
    group_objects,
    is_lost,
    list_pointless_jobs,
    list_starting,
    name_of,
    node_of,
    path_of,
)
from deployer.executors.kubernetes.agents.agent_removal import (
    free_lost_pods,
    longest_removal_seconds,
    remove_agents,
)
from deployer.executors.kubernetes.agents.forgetting import forget_objects
from deployer.executors.kubernetes.agents.gpu_products import GpuProducts
from deployer.executors.kubernetes.agents.others import list_belongings
from deployer.executors.kubernetes.agents.packs import DRAIN_ANNOTATION, list_names
from deployer.executors.kubernetes.concurrency import do_all
from deployer.executors.kubernetes.data.mounts import list_claims
from deployer.executors.kubernetes.diagnose.admission import check_admission
from deployer.executors.kubernetes.diagnose.case import Case, list_own
from deployer.executors.kubernetes.diagnose.doctor import list_checks
from deployer.executors.kubernetes.diagnose.pending import PendingPods
from deployer.executors.kubernetes.diagnose.references import Reference, list_references
from deployer.executors.kubernetes.keys.agent_keys import KeyStore, store_keys
from deployer.executors.kubernetes.manifest_builder import ManifestBuilder
from deployer.executors.kubernetes.manifests.build import pack_agents
from deployer.kube.client import Kube
from deployer.kube.kinds import JOB, POD, Manifest, kind_of
from deployer.kube.names import build_selector, is_ours, stamp_owner
from deployer.model import Agent, AgentPlan, Plan

AGENT = "agent"
LOOK_LIFE_SECONDS = 1.0  # followers of many logs share one look at the cluster


class KubernetesExecutor(Executor):
    """Agents as Jobs. `sleep` waits between looks; `folder` is where a template's path begins.

    `find_pushed` returns the image of new sweeps where the section names none. `grows` tells that
    nodes come which are not there yet. `hints` are what a site adds to reasons of a wait. `beside`
    lists what is made for others than agents, `data` are the data sets of deployer.yaml.
    """

    grows = False

    def __init__(
        self,
        kube: Kube,
        cluster: ClusterConfig,
        folder: Path,
        sleep: Callable[[float], None] = time.sleep,
        *,
        find_pushed: Callable[[], str] | None = None,
        hints: Mapping[Cause, str] = MappingProxyType({}),
        beside: Callable[[], Collection[Reference]] = tuple,
        data: Sequence[DataSet] = (),
    ) -> None:
        self.kube = kube
        self._products = GpuProducts(
            kube, cluster.gpu.product_label if cluster.gpu else GPU_PRODUCT_LABEL
        )
        self._pending = PendingPods(kube, self.grows, hints=hints)
        self._builder = ManifestBuilder(kube, cluster, folder, find_pushed)
        self._list_beside = beside
        self._data = tuple(data)
        self._data_claims = list_claims(cluster)
        self._sleep = sleep
        self._seen: Sequence[AgentObjects] = ()
        self._looked: tuple[float, tuple[AgentObjects, ...]] = (float("-inf"), ())

    def list_checks(self, plan: Plan) -> Sequence[Check]:
        """Return what is asked of the cluster before anything is made."""
        return list_checks(self.kube, self._data_claims, lambda: self._build_case(plan))

    def _build_case(self, plan: Plan) -> Case:
        """Return what the doctor would look at, as far as agents need it."""
        manifests = self.build_manifests(plan, {plan.agents[0].name: ""})
        job = next(one for one in manifests if kind_of(one) == JOB)
        own = frozenset((*list_own(manifests, plan, self.kube.owner), *self._list_beside()))
        return Case(
            self.kube,
            self._builder.cluster,
            job=job,
            own=own,
            data=self._data,
            grows=self.grows,
        )

    def apply(self, plan: Plan, api_keys: dict[str, str]) -> Sequence[Agent]:
        """Start the plan's agents that are not alive yet; `api_keys` maps agent name to key.

        What the cluster would not take is said before anything is made. Raises KubeError.
        """
        agent_objects = self._look(plan.sweep_path)
        now = self.kube.now()
        alive = {s.name for s in agent_objects if build_agent(s, now).alive}
        missing = [agent.name for agent in plan.agents if agent.name not in alive]
        started = self._start(plan, missing, api_keys) if missing else set()
        planned = {agent.name for agent in plan.agents}
        agents = [a for a in self.list_agents(plan.sweep_path) if a.name in planned]
        return [replace(agent, found=agent.name not in started) for agent in agents]

    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        """Return agents, oldest first; of one sweep, or of all."""
        agent_objects = self._seen = self._look(sweep_path)
        with_gpus = {node_of(s.pod) for s in agent_objects if s.pod and asks_for_gpu(s)} - {""}
        products = self._products.read(with_gpus)
        reasons = self._pending.explain(list_starting(agent_objects))
        now = self.kube.now()
        return [
            build_agent(
                s,
                now,
                reasons.get(s.job["metadata"]["name"]) if s.job else None,
                products,
                self.kube.owner,
            )
            for s in agent_objects
        ]

    def preview(self, plan: Plan, api_keys: dict[str, str]) -> Sequence[object]:
        """Return the manifests of the agents in `api_keys`."""
        manifests = self.build_manifests(plan, api_keys) if api_keys else ()
        return [stamp_owner(one, self.kube.owner) for one in manifests]

    def build_manifests(self, plan: Plan, api_keys: Mapping[str, str]) -> tuple[Manifest, ...]:
        """Return what `apply` would send for the agents in `api_keys`, without the Secret.

        Reads the cluster and changes nothing. Raises ConfigError, KubeError.
        """
        return self._build(plan, api_keys)[1]

    def share_pods(self, size: int) -> None:
        """Let so many of the agents that start from now on share a pod."""
        self._builder.cluster = replace(self._builder.cluster, agents_per_pod=size)

    def group(self, agents: Sequence[AgentPlan]) -> Sequence[Sequence[AgentPlan]]:
        """Split agents into those of each pod."""
        return list(pack_agents(agents, self._builder.cluster.agents_per_pod))

    def drain(self, names: Sequence[str]) -> None:
        """Let each agent's current run end, then let the agent leave.

        The wish stands on the Job, for whoever looks, and on the pod, where the supervisor reads it
        as a file. An agent that has not started yet is ended, unless others of its pod stay.
        """
        there, wanted = self._look(None), set(names)
        going = wanted | {s.name for s in there if s.draining}
        found = [s for s in there if s.name in wanted and s.job is not None]
        waiting = [s for s in found if not _runs(s) and going.issuperset(s.mates)]
        do_all(self._ask_to_drain, [s for s in found if s not in waiting])
        if waiting:
            remove_agents(self.kube, waiting, self._sleep)

    def dismiss(self, names: Sequence[str]) -> None:
        """Mark the Jobs of agents that have ended; those of others are deleted, which says it."""
        over = [s for s in self._find(names) if s.ended and s.job and not s.draining]
        do_all(self._ask_to_drain, over)

    def stop(self, names: Sequence[str]) -> Sequence[str]:
        """Interrupt agents, wait until nothing of them is left; return those that were alive.

        All agents of a pod go with it.
        """
        there, wanted = self._look(None), set(names)
        found = [s for s in there if s.name in wanted]
        now = self.kube.now()
        alive = [s.name for s in found if build_agent(s, now).alive]
        remove_agents(self.kube, found, self._sleep, there)
        return alive

    def longest_stop_seconds(self, names: Sequence[str]) -> float:
        """Return how long `stop` waits for these agents at most."""
        return longest_removal_seconds(self._find(names))

    def forget(self, sweep_path: str | None = None, *, everyone: bool = False) -> bool:
        """Delete what is kept about agents that have ended, logs and keys included.

        What a living agent's pod refers to stays: those that older versions started share it with
        other owners'. Raises what was refused once the rest is deleted.
        """
        agent_objects = self._look(sweep_path)
        now, owner = self.kube.now(), None if everyone else self.kube.owner
        agents = [build_agent(s, now, owner=owner) for s in agent_objects]
        over = [
            s
            for s, agent in zip(agent_objects, agents, strict=True)
            if not (agent.alive or agent.foreign)
        ]
        with collect_refusals() as refusals:
            with refusals.noted():
                remove_agents(self.kube, over, self._sleep)
            specs = [s.pod_spec for s, a in zip(agent_objects, agents, strict=True) if a.alive]
            needed = {one for spec in specs for one in list_references(spec)}
            found = forget_objects(self.kube, sweep_path, needed, owner)
        return found or bool(over)

    def list_others(self, sweep_path: str | None = None) -> Sequence[Belongings]:
        """Return what other owners have of sweeps in the namespace."""
        return list_belongings(self.kube, sweep_path)

    def log_lines(self, names: Sequence[str], follow: bool) -> Iterator[tuple[str, str]]:
        """Yield (agent name, line) in order of arrival; with `follow`, until all have ended."""
        return follow_agents(self.kube, names, follow, self._look_for_one)

    def heal(self) -> Sequence[str]:
        """Do what only a watcher can: free agents of lost nodes, see that drained ones leave.

        Kubernetes waits for a lost node until it returns or is deleted; without its pod the Job
        starts another one, also where the agent was drained. Goes by what was listed last, so that
        it costs nothing while all is well. Other owners' agents are left to their owners. Returns
        sentences about what was done.
        """
        now = self.kube.now()
        agent_objects = [s for s in self._seen if s.owner == self.kube.owner]
        lost = [pod for s in agent_objects for pod in s.living_pods if is_lost(pod, now)]
        free_lost_pods(self.kube, list({pod["metadata"]["name"]: pod for pod in lost}.values()))
        unheard = [s for s in agent_objects if _runs(s) and s.draining and not _was_told(s)]
        do_all(self._ask_to_drain, unheard)
        do_all(lambda name: self.kube.delete(JOB, name), list_pointless_jobs(agent_objects))
        return [
            f"{name_of(pod)}: node {node_of(pod)} is lost; its pod was deleted, "
            "so that its Job can start another"
            for pod in lost
        ]

    def _start(
        self,
        plan: Plan,
        missing: Sequence[str],
        api_keys: Mapping[str, str],
    ) -> set[str]:
        """Create the Jobs of missing agents; return the names of those that nobody else created."""
        keyless = [name for name in missing if name not in api_keys]
        if keyless:
            raise AgentError(f"agent {keyless[0]} has just ended", "type the command again")
        keys = {name: api_keys[name] for name in missing}
        secret, manifests = self._build(plan, keys)
        jobs = [one for one in manifests if kind_of(one) == JOB]
        check_admission(self.kube, jobs[0])
        secret.write()
        for one in manifests:
            if kind_of(one) != JOB:
                self._ensure(one)
        remove_agents(self.kube, self._find_dead(plan.sweep_path, missing), self._sleep)
        started: set[str] = set()
        do_all(lambda job: started.update(self._create(job)), jobs)
        return started

    def _build(
        self, plan: Plan, api_keys: Mapping[str, str]
    ) -> tuple[KeyStore, tuple[Manifest, ...]]:
        secret = store_keys(self.kube, plan, api_keys)
        return secret, self._builder.build(plan, list(api_keys), secret.name, secret.keys)

    def _ensure(self, manifest: Manifest) -> None:
        """Apply what the user's template adds; what is ours may be there, and keeps its owner."""
        if is_ours(manifest):
            self.kube.create_once(manifest)
        else:
            self.kube.apply(manifest)

    def _create(self, job: Manifest) -> Sequence[str]:
        """Create a Job and return its agents; none if another process was faster."""
        made = self.kube.create_once(job, build_selector(path_of(job), AGENT, name_of(job)))
        return (list_names(job) or [name_of(job)]) if made else ()

    def _find_dead(self, sweep_path: str, names: Sequence[str]) -> list[AgentObjects]:
        """Return what is left of own agents that another watcher has not started meanwhile."""
        found, now = self._look(sweep_path), self.kube.now()
        own = [s for s in found if s.name in names and s.owner == self.kube.owner]
        return [s for s in own if not build_agent(s, now).alive]

    def _ask_to_drain(self, objects: AgentObjects) -> None:
        wish: Manifest = {"metadata": {"annotations": {objects.drain_annotation: "true"}}}
        pods = [(POD, str(pod["metadata"]["name"])) for pod in objects.living_pods]
        for kind, name in [(JOB, _job_name(objects)), *pods]:
            try:
                self.kube.patch(kind, name, wish)
            except KubeError as error:
                if error.status != 404:
                    raise

    def _look(self, sweep_path: str | None) -> list[AgentObjects]:
        selector = build_selector(sweep_path, AGENT)
        # Jobs first: a pod whose Job is not listed has lost it.
        jobs = self.kube.list_objects(JOB, selector)
        pods = self.kube.list_objects(POD, selector)
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


def _runs(objects: AgentObjects) -> bool:
    """Tell whether a supervisor is there to be told anything."""
    pod = objects.pod
    return objects.job is not None and pod is not None and pod["status"].get("phase") == "Running"


def _job_name(objects: AgentObjects) -> str:
    assert objects.job is not None
    return str(objects.job["metadata"]["name"])


def _was_told(objects: AgentObjects) -> bool:
    return all(DRAIN_ANNOTATION in annotations_of(pod) for pod in objects.living_pods)
