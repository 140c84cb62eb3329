"""Agents in a GKE cluster: made from its specification, paid for, grown and deleted."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import ceil
from typing import Any

from deployer.config.causes import Cause
from deployer.config.project import Project
from deployer.errors import (
    BackendError,
    CloudError,
    ConfigError,
    Finding,
    KubeError,
    right,
    unknown,
    wrong,
)
from deployer.executors.base import Demand, Held, Limits, ProvidesCluster, Removal, Saved
from deployer.executors.gke.idle_timer import DISK_DRIVER
from deployer.executors.gke.orphans import describe_results, tell_rest
from deployer.executors.gke.timer import NAMESPACE, check_role, ensure_timer
from deployer.executors.kubernetes.backend.deployment import build_backend, load_backend_templates
from deployer.executors.kubernetes.backend.removal import find_data
from deployer.executors.kubernetes.executor import KubernetesExecutor
from deployer.executors.kubernetes.gpu_drivers import SYSTEM, install_drivers
from deployer.executors.kubernetes.manifest_builder import NOT_BUILT, ManifestBuilder
from deployer.gke.api.client import Gke, open_gke
from deployer.gke.api.compute import CloudDisk, Compute
from deployer.gke.api.model import CloudCluster, build_expiry
from deployer.gke.api.operations import Waiter
from deployer.gke.cluster.access import open_kube_of
from deployer.gke.cluster.creation import add_next_pool, ensure_cluster, find_cluster, mark_expiry
from deployer.gke.cluster.obstacles import NOT_CHECKED, find_obstacles
from deployer.gke.inventory import Inventory, describe_existing, list_inventory
from deployer.gke.pricing import (
    Prices,
    describe_disk,
    describe_ends,
    describe_estimate,
    describe_fallback,
    describe_pool,
    estimate,
    estimate_disk_month,
    estimate_pools,
    load_prices,
)
from deployer.gke.specification import (
    CLUSTER_LABEL,
    DISK_TYPE,
    OWNER_LABEL,
    ClusterSpec,
    is_zone,
    load_spec,
    region_of,
)
from deployer.gke.teardown import Terms, list_held, remove_cluster
from deployer.images.image import OLDER, explain_mismatch, predict_image_labels, read_architectures
from deployer.kube.client import Kube
from deployer.kube.objects import (
    BACKEND,
    CLAIM,
    UNITS,
    VOLUME,
    Manifest,
    build_labels,
    read_quantity,
)
from deployer.model import Agent, Plan

LOG = logging.getLogger(__name__)

ZONE_LABEL = "topology.gke.io/zone"
# A new pool's first node takes minutes, and until then the old refusals are still to be read.
PATIENCE_SECONDS = 600.0
ANYWHERE = "-"  # Google's word for all locations
NODE_SPARE_SECONDS = 1800.0  # of a node's life: to come up, and for agents' last checkpoints


def reuse_disk(gke: Gke, cluster: CloudCluster, kube: Kube, claim: Manifest) -> None:
    """Bind the backend's claim, unless there is one, to the newest disk with its earlier results.

    A disk elsewhere is named and left alone. Raises KubeError, and BackendError for a disk that a
    machine still has: without it the results would seem lost.
    """
    if find_data(kube):
        return
    try:
        disks = _list_disks(gke, cluster, kube.namespace)
    except CloudError as error:
        LOG.info(
            f"whether a disk has results of an earlier cluster is not checked: {error.message}"
        )
        return
    disk = choose_disk(cluster, disks)
    if disk is None:
        for one in disks:
            LOG.info(
                f"disk {one.name} has results of an earlier cluster {cluster.name}; they are read "
                f"in {one.location} alone: location: {one.location} in the specification"
            )
        return
    if disk.users:
        raise BackendError(
            f"disk {disk.name} has the backend's results and is attached to {disk.users[0]}",
            "wait until that machine is gone, then type the command again",
        )
    volume = build_volume(gke.project, disk, kube.namespace, claim["metadata"]["name"])
    if not kube.create_once(volume):  # bound to a claim that is gone
        kube.patch(
            VOLUME, disk.name, {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
        )
    kube.create_once(bind_claim(claim, disk))
    LOG.info(f"the embedded backend gets disk {disk.name}, which has results of an earlier cluster")


def choose_disk(cluster: CloudCluster, disks: Sequence[CloudDisk]) -> CloudDisk | None:
    """Return the newest disk that nodes of the cluster can have; pure."""
    places = {cluster.location, region_of(cluster.location)}
    near = [
        disk
        for disk in disks
        if disk.location in places or region_of(disk.location) == cluster.location
    ]
    return max(near, key=lambda disk: disk.used_at, default=None)


def build_volume(project: str, disk: CloudDisk, namespace: str, claim: str) -> Manifest:
    """Return the volume for a disk that is there, for one claim alone, which it outlives; pure.

    https://cloud.google.com/kubernetes-engine/docs/how-to/persistent-volumes/preexisting-pd
    """
    scope = "zones" if is_zone(disk.location) else "regions"
    handle = f"projects/{project}/{scope}/{disk.location}/disks/{disk.name}"
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": f"{disk.size_gb}Gi"},
        "storageClassName": "",
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": DISK_DRIVER, "volumeHandle": handle, "fsType": "ext4"},
        "claimRef": {
            "apiVersion": CLAIM.api_version,
            "kind": CLAIM.kind,
            "namespace": namespace,
            "name": claim,
        },
    }
    if is_zone(disk.location):
        where = {"key": ZONE_LABEL, "operator": "In", "values": [disk.location]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}}
    # With the annotation the driver deletes the disk once `--delete-data` has let the volume go.
    metadata = {
        "name": disk.name,
        "labels": build_labels(BACKEND),
        "annotations": {"pv.kubernetes.io/provisioned-by": DISK_DRIVER},
    }
    return {
        "apiVersion": VOLUME.api_version,
        "kind": VOLUME.kind,
        "metadata": metadata,
        "spec": spec,
    }


def bind_claim(claim: Manifest, disk: CloudDisk) -> Manifest:
    """Return the backend's claim, bound to the disk's volume; pure."""
    bound = copy.deepcopy(claim)
    bound["spec"] |= {
        "storageClassName": "",  # else the default class makes another disk
        "volumeName": disk.name,
        "resources": {"requests": {"storage": f"{disk.size_gb}Gi"}},
    }
    return bound


def _list_disks(gke: Gke, cluster: CloudCluster, namespace: str) -> list[CloudDisk]:
    owner = cluster.labels.get(OWNER_LABEL)
    return [
        disk
        for disk in Compute(gke).list_disks(f"labels.{CLUSTER_LABEL}={cluster.name}")
        if disk.holds_results
        and disk.namespace == namespace
        and disk.labels.get(OWNER_LABEL) == owner
    ]


class GkeExecutor(KubernetesExecutor, ProvidesCluster):
    """A cluster of ours on Google's cloud, which can grow by another kind of GPU."""

    grows = True

    def __init__(self, name: str, project: Project) -> None:
        super().__init__(name, project)
        self._found: CloudCluster | None = None
        self._location = ""  # of the one cluster that is meant
        self._removal = f"deployer down --cluster --on {name}"
        self._listed: Sequence[Agent] = ()
        self._patient_until = 0.0

    @cached_property
    def spec(self) -> ClusterSpec:
        """The specification that `gke:` of deployer.yaml names, read once."""
        return load_spec(self.project.settings.gke, self.project.folder)

    @cached_property
    def prices(self) -> Prices:
        return load_prices(self.project.folder)

    @cached_property
    def gke(self) -> Gke:
        return open_gke(self.spec.project, self.project.environment, self.project.owner)

    @cached_property
    def builder(self) -> ManifestBuilder:
        """What makes the manifests: agents get what they need on the specification's nodes."""
        builder = ManifestBuilder(self.project)
        if self.spec.needs_host_ipc:
            builder.section = replace(builder.section, host_ipc=True)
        return builder

    @property
    def address(self) -> Mapping[str, str]:
        """Return the namespace, and the cluster once it is known."""
        namespace = self.project.kubernetes.namespace or "default"
        cloud = self._name(self._found) if self._found else ""
        return {"context": "", "namespace": namespace, "cloud": cloud}

    @cached_property
    def kube(self) -> Kube:
        """The client of the cluster; raises CloudError if there is none."""
        return open_kube_of(self.gke, self._require_cluster(), self.project.kubernetes.namespace)

    def _name(self, found: CloudCluster) -> str:
        return f"projects/{self.gke.project}/locations/{found.location}/clusters/{found.name}"

    @property
    def cloud(self) -> str:
        """The cluster of the specification in any location, as Google writes it."""
        return f"projects/{self.gke.project}/locations/{ANYWHERE}/clusters/{self.spec.name}"

    def mean(self, cloud: str, sweep_path: str) -> None:
        self._removal = f"deployer down {sweep_path} --cluster" if sweep_path else self._removal
        _, project, _, place, _, name = cloud.split("/")
        self._location = "" if place == ANYWHERE else place
        try:
            spec = self.spec
        except ConfigError:  # what is deleted needs no specification, and its price is estimated
            spec = load_spec(None, self.project.folder)
        locations = (self._location,) if self._location else spec.locations
        self.spec = replace(spec, project=project, locations=locations, name=name)

    def find_cloud(self) -> str:
        """Return the caller's cluster of the name, else another owner's; raises CloudError."""
        listed = self.gke.list_clusters().clusters
        found = [one for one in listed if one.name == self.spec.name and one.ours]
        found = [one for one in found if self._location in ("", one.location)]
        found.sort(key=lambda one: one.owner != self.gke.owner)
        return self._name(found[0]) if found else ""

    def _look_up(self) -> CloudCluster | None:
        if self._location:
            found = self.gke.get_cluster(self._location, self.spec.name)
            return found if found and found.ours else None
        return find_cluster(self.gke, self.spec)

    def _require_cluster(self) -> CloudCluster:
        """Return the cluster that was found or made; raises CloudError if there is none."""
        self._found = self._found or self._look_up()
        if self._found is None:
            raise CloudError(
                f"there is no cluster {self.spec.name} in project {self.gke.project}",
                "deployer gke up makes it, and so does deployer up FILE --on gke",
                "NOT_FOUND",
            )
        return self._found

    def check(self, plan: Plan, limits: Limits) -> None:
        """Read the specification and the prices, and build the manifests; raises ConfigError."""
        super().check(plan, Limits(limits.agents, limits.max_seconds))
        estimate(self.spec, self.spec.locations[0], self.prices)

    def _examine(self, demand: Demand) -> Sequence[Finding]:
        """Look at the cluster; before it is made, at what Google would refuse of it."""
        found = find_cluster(self.gke, self.spec)
        subject = f"cluster {self.spec.name}"
        if found is None:
            return tuple(self._examine_cloud(subject))
        there = right("cloud", subject, f"is there, in {found.location}")
        return (there, *super()._examine(demand))

    def _examine_cloud(self, subject: str) -> Iterator[Finding]:
        yield right("cloud", subject, f"is not there: `up` makes it in project {self.gke.project}")
        try:
            refusals = find_obstacles(self.gke, self.spec)
        except CloudError as error:
            said = f"{NOT_CHECKED}: {error.message}"
            yield unknown("cloud-quota", "Compute Engine", said)
            return
        everywhere = len(refusals) >= len(self.spec.locations) * len(self.spec.gpus)
        for one in refusals:
            build = wrong if everywhere else unknown
            yield build("cloud-quota", one.location, one.sentence, one.hint)
        if not refusals:
            yield right("cloud-quota", "Compute Engine", "quotas and machine types suffice")

    def _count_pods(self, limits: Limits) -> int | None:
        return limits.agents and self.project.kubernetes.count_pods(limits.agents)

    def provision(self, limits: Limits) -> None:
        """Push the image, tell the price, and make the cluster with its drivers."""
        super().provision(limits)
        for line in self._describe_cost(limits):
            LOG.info(line)
        gke, spec = self.gke, self._limit_nodes(limits)
        for line in check_role(gke, spec):
            LOG.info(line)
        expires = ""
        if limits.max_seconds:
            expires = build_expiry(gke.get_time() + limits.max_seconds + NODE_SPARE_SECONDS)
        cluster = ensure_cluster(gke, spec, wait_seconds=limits.capacity_seconds, expires=expires)
        self._found = cluster
        try:
            mark_expiry(gke, cluster, expires)
        except CloudError as error:
            LOG.info(f"when the agents end is not written at the cluster: {error.message}")
        place, pools = cluster.location, cluster.pool_names
        hours = _count_hours(limits)
        for line in describe_fallback(
            self.spec, place, pools, self.prices, self._count_pods(limits), hours
        ):
            LOG.info(line)
        for line in set_timer(gke, self.spec, cluster):
            LOG.info(line)
        if any(choice.driver_version == "disabled" for choice in self.spec.gpus):
            # Ahead of the first node: the pool is empty until agents ask for it.
            install_drivers(open_kube_of(gke, cluster, SYSTEM), ["cos"])

    @property
    def _spot_pools(self) -> str:
        gpu, spec = self.project.kubernetes.gpu, self.spec
        named = zip(spec.pool_names, spec.gpus, strict=True)
        spot = [name for name, choice in named if choice.spot and (gpu is None or gpu.count)]
        return f"{', '.join(spot)} of cluster {spec.name}" if spot else ""

    def list_warnings(self, plan: Plan) -> Sequence[str]:
        """Name also the GPUs of the specification for which the image has no kernels."""
        return [*super().list_warnings(plan), *warn_about_gpus(self.project, self.spec)]

    def preview(
        self, plan: Plan, api_keys: Mapping[str, str] | None = None, now: float = 0.0
    ) -> Sequence[object]:
        """Return the manifests; without keys, log what a cluster for them would cost."""
        if api_keys is None:
            seconds = plan.deadline - now if plan.deadline else None
            for line in self._describe_cost(Limits(len(plan.agents), seconds)):
                LOG.info(line)
        return super().preview(plan, api_keys, now)

    def prepare_backend(self) -> None:
        """Bind the backend's claim to the disk that an earlier cluster of the name has left."""
        section = replace(self.builder.section, namespace=self.kube.namespace)
        section = section if section.image else replace(section, image=NOT_BUILT)
        claim, *_ = build_backend(load_backend_templates(), b"", self.project.backend, section)
        reuse_disk(self.gke, self._require_cluster(), self.kube, claim)

    def _limit_nodes(self, limits: Limits) -> ClusterSpec:
        """Return the specification whose nodes end after the agents, should they be lost."""
        if not limits.max_seconds:
            return self.spec
        return self.spec.limit_nodes(limits.max_seconds + NODE_SPARE_SECONDS)

    def _describe_cost(self, limits: Limits) -> Iterator[str]:
        wanted = estimate(self.spec, self.spec.locations[0], self.prices, self._count_pods(limits))
        yield from describe_estimate(wanted, _count_hours(limits))
        yield from describe_ends(self._limit_nodes(limits), wanted, limits.max_seconds)
        if self.project.embedded:
            claim = load_backend_templates()[0]
            asked = claim["spec"]["resources"]["requests"]["storage"]
            size_gb = ceil(read_quantity(self.project.backend.size or asked) / UNITS["Gi"])
            usd = estimate_disk_month(DISK_TYPE, size_gb, wanted.region, self.prices)
            yield describe_disk(usd)

    def save_results(self) -> Saved | None:
        """Copy what the backend in the cluster holds to a folder here; None if there is none."""
        found = self._look_up()
        if found is None or not found.endpoint:  # nothing ever ran in it
            return None
        return super().save_results()

    def describe_bill(self) -> Sequence[str]:
        """Return what exists of the cluster and its price; raises CloudError."""
        place = self._location
        return describe_existing(self.gke, self.spec, self.prices, self._removal, place)

    def list_held(self, *, copied: bool) -> Sequence[Held]:
        """Return the clusters that the rule keeps; raises CloudError."""
        terms, waiter = replace(self._terms, copied=copied), Waiter()
        found = list_held(self.gke, self.spec.name, waiter, terms)
        return [Held(one.words, one.foreign) for one in found]

    def list_results(self) -> Sequence[str]:
        """Name the caller's disks with results: the cluster's, or an earlier one's of the name."""
        found = list_inventory(self.gke, self.spec.name, self.gke.owner.id, self._location)
        return [describe_results(one, self.prices) for one in found.disks if one.holds_results]

    def remove(self, removal: Removal) -> None:
        """Delete the cluster and all that came with it; raises CloudError naming what stays."""
        terms = replace(
            self._terms,
            sure=removal.sure,
            delete_data=removal.delete_data,
            copied=removal.copied,
        )
        remove_with_proof(self.gke, self.spec, terms, self.prices)

    @property
    def _terms(self) -> Terms:
        return Terms(location=self._location, near=self.spec.locations)

    def get_usd_per_hour(self, sweep_path: str, agents: int | None = None) -> float | None:
        """Return the cluster's price with a sweep's agents, or so many; None if it is unknown."""
        if agents is None:
            there = self.list_agents(sweep_path)
            pods = len({agent.pod or agent.name for agent in there if agent.alive})
        else:
            pods = self.project.kubernetes.count_pods(agents)
        found = self._require_cluster()
        pools = estimate_pools(self.spec, found.location, self.prices, found.pool_names, pods)
        return pools.usd_per_hour

    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        """Return agents, oldest first; of one sweep, or of all."""
        self._listed = super().list_agents(sweep_path)
        return self._listed

    def heal(self) -> Sequence[str]:
        """Do what any cluster needs; where nodes are sold out, add the specification's next pool.

        What was obtained already is kept, and a pool that costs nothing while it is empty stays.
        If none can be added, it tries again later. Returns sentences about what was done.
        """
        done = list(super().heal())
        reasons = (agent.pending for agent in self._listed if agent.pending)
        refused = next((one.message for one in reasons if one.code is Cause.STOCKOUT), "")
        if refused and self.kube.now() >= self._patient_until:
            done += self._add_pool(refused)
            self._patient_until = self.kube.now() + PATIENCE_SECONDS
        return done

    def _add_pool(self, refused: str) -> list[str]:
        found = self._require_cluster()
        try:
            pool = add_next_pool(self.gke, self.spec, found)
        except CloudError as error:  # agents wait for what is there
            hint = f" ({error.hint})" if error.hint else ""
            return [f"{refused}: no other pool can be added now: {error.message}{hint}"]
        if pool is None:
            return []
        self._found = replace(found, pools=(*found.pools, pool))
        price = describe_pool(self.spec, found.location, pool.name, self.prices)
        return [f"{refused}: pool {pool.name} is added", price]


def warn_about_gpus(project: Project, spec: ClusterSpec) -> list[str]:
    """Name GPUs for which the image of the section `image:` will have no kernels."""
    gpu = project.kubernetes.gpu
    if project.kubernetes.image or (gpu and not gpu.count):
        return []
    built = read_architectures(predict_image_labels(project.image, project.folder))
    said = {explain_mismatch(built, choice.accelerator) for choice in spec.gpus}
    return [f"{one} ({OLDER})" for one in sorted(said) if one]


def _count_hours(limits: Limits) -> float | None:
    return limits.max_seconds / 3600 if limits.max_seconds else None


def remove_with_proof(gke: Gke, spec: ClusterSpec, terms: Terms, prices: Prices) -> Inventory:
    """Delete a cluster and all that came with it; report that a list of the rest is empty.

    Disks with results stay unless `terms` give them up. Raises CloudError naming what else stays.
    """
    left = remove_cluster(gke, spec, terms=terms)
    tell_rest(spec.name, left, prices, gke.project)
    return left


def set_timer(gke: Gke, spec: ClusterSpec, cluster: CloudCluster) -> Sequence[str]:
    """Let an idle cluster end by itself or no longer, as specified; return what is to be said.

    A timer that cannot be set is told, and stops nothing.
    """
    try:
        kube = open_kube_of(gke, cluster, NAMESPACE)
        now = gke.get_time() if spec.delete_when_idle else 0.0  # this machine's may be wrong
        return ensure_timer(kube, spec, gke.project, cluster, now)
    except (CloudError, KubeError) as error:
        if spec.delete_when_idle is None:
            return ()
        return (f"the timer that deletes the idle cluster is not set: {error.message}",)
