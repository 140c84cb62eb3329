"""Agents in a GKE cluster, which is created with its drivers on demand, and autoscales."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil

from deployer.config.causes import Cause
from deployer.config.project import Project
from deployer.errors import CloudError, Finding, KubeError, right
from deployer.executors.base import Demand, Description, Limits
from deployer.executors.gke.cluster import GkeBackendHost, GkeCluster, GkeTarget
from deployer.executors.gke.timer import NAMESPACE, check_role, ensure_timer
from deployer.executors.kubernetes.backend.deployment import load_backend_templates
from deployer.executors.kubernetes.executor import KubernetesExecutor
from deployer.executors.kubernetes.gpu_drivers import SYSTEM, install_drivers
from deployer.gke.api.client import Gke
from deployer.gke.api.model import CloudCluster, build_expiry
from deployer.gke.cluster.access import open_kube_of
from deployer.gke.cluster.creation import ensure_cluster, find_cluster, mark_expiry
from deployer.gke.pricing import (
    describe_disk,
    describe_ends,
    describe_estimate,
    describe_fallback,
    estimate,
    estimate_disk_month,
)
from deployer.gke.specification import DISK_TYPE, ClusterSpec
from deployer.images.image import OLDER, explain_mismatch, predict_image_labels, read_architectures
from deployer.kube.objects import UNITS, read_quantity
from deployer.model import Agent, Plan

LOG = logging.getLogger(__name__)

# A new pool's first node takes minutes; until then the old refusals remain visible.
PATIENCE_SECONDS = 600.0
NODE_SPARE_SECONDS = 1800.0  # for a node's start, and agents' last checkpoints


class GkeExecutor(KubernetesExecutor):
    """Agents in our own cluster on Google Cloud, which can grow by another kind of GPU."""

    grows = True
    cluster: GkeCluster

    def __init__(self, name: str, project: Project) -> None:
        cluster = GkeCluster(name, project)
        super().__init__(name, project, GkeTarget(name, project, cluster))
        self.cluster = cluster
        self.backend = GkeBackendHost(self.target, cluster)
        self._patient_until = 0.0

    @property
    def address(self) -> Mapping[str, str]:
        """Return the namespace, and the cluster once it is known."""
        namespace = self.project.kubernetes.namespace or "default"
        return {"context": "", "namespace": namespace, "cloud": self.cluster.known_name}

    def check(self, plan: Plan, limits: Limits) -> None:
        """Read the specification and the prices, and build the manifests; raises ConfigError."""
        super().check(plan, Limits(limits.agents, limits.max_seconds))
        spec = self.cluster.spec
        estimate(spec, spec.locations[0], self.cluster.prices)

    def _examine(self, demand: Demand) -> Sequence[Finding]:
        """Examine the cluster; before its creation, what Google would refuse."""
        found = find_cluster(self.cluster.gke, self.cluster.spec)
        if found is None:
            return tuple(self.cluster.examine_before())
        subject = f"cluster {self.cluster.spec.name}"
        return (
            right("cloud", subject, f"exists in {found.location}"),
            *super()._examine(demand),
        )

    def _count_pods(self, limits: Limits) -> int | None:
        return limits.agents and self.project.kubernetes.count_pods(limits.agents)

    def provision(self, limits: Limits) -> None:
        """Push the image, log the price, and create the cluster with its drivers."""
        super().provision(limits)
        for line in self._describe_cost(limits):
            LOG.info(line)
        gke, spec = self.cluster.gke, self._limit_nodes(limits)
        for line in check_role(gke, spec):
            LOG.info(line)
        expires = ""
        if limits.max_seconds:
            expires = build_expiry(gke.get_time() + limits.max_seconds + NODE_SPARE_SECONDS)
        cluster = ensure_cluster(gke, spec, wait_seconds=limits.capacity_seconds, expires=expires)
        self.cluster.note(cluster)
        try:
            mark_expiry(gke, cluster, expires)
        except CloudError as error:
            LOG.info(f"could not label the cluster with the agents' end time: {error.message}")
        place, pools = cluster.location, cluster.pool_names
        hours = _count_hours(limits)
        for line in describe_fallback(
            self.cluster.spec, place, pools, self.cluster.prices, self._count_pods(limits), hours
        ):
            LOG.info(line)
        for line in set_timer(gke, self.cluster.spec, cluster):
            LOG.info(line)
        if any(choice.driver_version == "disabled" for choice in self.cluster.spec.gpus):
            # Before the first node: the pool is empty until agents need it.
            install_drivers(open_kube_of(gke, cluster, SYSTEM), ["cos"])

    @property
    def _spot_pools(self) -> str:
        gpu, spec = self.project.kubernetes.gpu, self.cluster.spec
        named = zip(spec.pool_names, spec.gpus, strict=True)
        spot = [name for name, choice in named if choice.spot and (gpu is None or gpu.count)]
        return f"{', '.join(spot)} of cluster {spec.name}" if spot else ""

    def describe_runs(self, plan: Plan) -> Description:
        """Also name the specification's GPUs for which the image has no kernels."""
        found = super().describe_runs(plan)
        more = warn_about_gpus(self.project, self.cluster.spec)
        return replace(found, warnings=(*found.warnings, *more))

    def preview(
        self, plan: Plan, api_keys: Mapping[str, str] | None = None, now: float = 0.0
    ) -> Sequence[object]:
        """Return the manifests; without keys, log the price of a cluster for them."""
        if api_keys is None:
            seconds = plan.deadline - now if plan.deadline else None
            for line in self._describe_cost(Limits(len(plan.agents), seconds)):
                LOG.info(line)
        return super().preview(plan, api_keys, now)

    def _limit_nodes(self, limits: Limits) -> ClusterSpec:
        """Return the specification with nodes that expire after the agents, as a safeguard."""
        if not limits.max_seconds:
            return self.cluster.spec
        return self.cluster.spec.limit_nodes(limits.max_seconds + NODE_SPARE_SECONDS)

    def _describe_cost(self, limits: Limits) -> Iterator[str]:
        wanted = estimate(
            self.cluster.spec,
            self.cluster.spec.locations[0],
            self.cluster.prices,
            self._count_pods(limits),
        )
        yield from describe_estimate(wanted, _count_hours(limits))
        yield from describe_ends(self._limit_nodes(limits), wanted, limits.max_seconds)
        if self.project.embedded:
            claim = load_backend_templates()[0]
            asked = claim["spec"]["resources"]["requests"]["storage"]
            size_gb = ceil(read_quantity(self.project.backend.size or asked) / UNITS["Gi"])
            usd = estimate_disk_month(DISK_TYPE, size_gb, wanted.region, self.cluster.prices)
            yield describe_disk(usd)

    def heal(self, agents: Sequence[Agent]) -> Sequence[str]:
        """Repair like any cluster; if nodes are sold out, add the specification's next pool.

        Existing nodes stay, and so does an empty pool, which costs nothing. If no pool can be
        added, it retries later. Returns a sentence about each repair.
        """
        done = list(super().heal(agents))
        reasons = (agent.pending for agent in agents if agent.pending)
        refused = next((one.message for one in reasons if one.code is Cause.STOCKOUT), "")
        if refused and self.target.kube.now() >= self._patient_until:
            done += self.cluster.add_pool(refused)
            self._patient_until = self.target.kube.now() + PATIENCE_SECONDS
        return done


def warn_about_gpus(project: Project, spec: ClusterSpec) -> list[str]:
    """Return GPUs that the image built from `image:` has no kernels for."""
    gpu = project.kubernetes.gpu
    if project.kubernetes.image or (gpu and not gpu.count):
        return []
    built = read_architectures(predict_image_labels(project.image, project.folder))
    said = {explain_mismatch(built, choice.accelerator) for choice in spec.gpus}
    return [f"{one} ({OLDER})" for one in sorted(said) if one]


def _count_hours(limits: Limits) -> float | None:
    return limits.max_seconds / 3600 if limits.max_seconds else None


def set_timer(gke: Gke, spec: ClusterSpec, cluster: CloudCluster) -> Sequence[str]:
    """Set or remove the timer that deletes an idle cluster; return what to log.

    A timer that cannot be set is reported, and is not an error.
    """
    try:
        kube = open_kube_of(gke, cluster, NAMESPACE)
        now = gke.get_time() if spec.delete_when_idle else 0.0  # the local clock may be wrong
        return ensure_timer(kube, spec, gke.project, cluster, now)
    except (CloudError, KubeError) as error:
        if spec.delete_when_idle is None:
            return ()
        return (f"could not set the timer that deletes the idle cluster: {error.message}",)
