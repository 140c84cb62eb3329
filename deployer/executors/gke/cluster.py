"""The GKE cluster that is created for a sweep: found, priced, extended and deleted."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from deployer.config.project import Project
from deployer.errors import BackendError, CloudError, ConfigError, Finding, right, unknown, wrong
from deployer.executors.base import Held, PaidCluster, Removal, Saved
from deployer.executors.gke.idle_timer import DISK_DRIVER
from deployer.executors.gke.orphans import describe_results, report_rest
from deployer.executors.kubernetes.backend.deployment import build_backend, load_backend_templates
from deployer.executors.kubernetes.backend.host import ClusterBackendHost
from deployer.executors.kubernetes.backend.removal import find_data
from deployer.executors.kubernetes.manifest_builder import NOT_BUILT, ManifestBuilder, Target
from deployer.gke.api.client import Gke, open_gke
from deployer.gke.api.compute import CloudDisk, Compute
from deployer.gke.api.model import CloudCluster
from deployer.gke.api.operations import Waiter
from deployer.gke.cluster.access import open_kube_of
from deployer.gke.cluster.creation import add_next_pool, find_cluster
from deployer.gke.cluster.obstacles import NOT_CHECKED, find_obstacles
from deployer.gke.inventory import Inventory, describe_existing, list_inventory
from deployer.gke.pricing import Prices, describe_pool, estimate_pools, load_prices
from deployer.gke.specification import (
    CLUSTER_LABEL,
    OWNER_LABEL,
    ClusterSpec,
    is_zone,
    load_spec,
    region_of,
)
from deployer.gke.teardown import Terms, list_held, remove_cluster
from deployer.kube.client import Kube
from deployer.kube.objects import BACKEND, CLAIM, VOLUME, Manifest, build_labels
from deployer.model import Agent

LOG = logging.getLogger(__name__)

ZONE_LABEL = "topology.gke.io/zone"
ANYWHERE = "-"  # Google's word for all locations


class GkeCluster(PaidCluster):
    """The cluster of the specification, or the one that `select` names.

    `spec` is read once from `gke:` of deployer.yaml.
    """

    def __init__(self, executor: str, project: Project) -> None:
        self.project = project
        self._found: CloudCluster | None = None
        self._location = ""  # of the selected cluster
        self._command = f"deployer down --cluster --on {executor}"  # the command that deletes it

    @cached_property
    def spec(self) -> ClusterSpec:
        return load_spec(self.project.settings.gke, self.project.folder)

    @cached_property
    def prices(self) -> Prices:
        return load_prices(self.project.folder)

    @cached_property
    def gke(self) -> Gke:
        return open_gke(self.spec.project, self.project.environment, self.project.owner)

    @property
    def known_name(self) -> str:
        """Return the name of the cluster that was found or created; empty if none was yet."""
        return self._name(self._found) if self._found else ""

    def _name(self, found: CloudCluster) -> str:
        return f"projects/{self.gke.project}/locations/{found.location}/clusters/{found.name}"

    @property
    def name(self) -> str:
        """The cluster of the specification in any location, as Google writes it."""
        return f"projects/{self.gke.project}/locations/{ANYWHERE}/clusters/{self.spec.name}"

    def select(self, name: str, sweep_path: str) -> None:
        self._command = f"deployer down {sweep_path} --cluster" if sweep_path else self._command
        _, project, _, place, _, cluster = name.split("/")
        self._location = "" if place == ANYWHERE else place
        try:
            spec = self.spec
        except ConfigError:  # deletion needs no specification
            spec = load_spec(None, self.project.folder)
        locations = (self._location,) if self._location else spec.locations
        self.spec = replace(spec, project=project, locations=locations, name=cluster)

    def find(self) -> str:
        """Return the caller's cluster of this name, else another owner's; raises CloudError."""
        listed = self.gke.list_clusters().clusters
        found = [one for one in listed if one.name == self.spec.name and one.ours]
        found = [one for one in found if self._location in ("", one.location)]
        found.sort(key=lambda one: one.owner != self.gke.owner)
        return self._name(found[0]) if found else ""

    def look_up(self) -> CloudCluster | None:
        if self._location:
            found = self.gke.get_cluster(self._location, self.spec.name)
            return found if found and found.ours else None
        return find_cluster(self.gke, self.spec)

    def require(self) -> CloudCluster:
        """Return the cluster that was found or created; raises CloudError if there is none."""
        self._found = self._found or self.look_up()
        if self._found is None:
            raise CloudError(
                f"cluster {self.spec.name} not found in project {self.gke.project}",
                "create it: deployer gke up, or deployer up FILE --on gke",
                "NOT_FOUND",
            )
        return self._found

    def note(self, cluster: CloudCluster) -> None:
        """Use a cluster that was just created or extended as the selected one."""
        self._found = cluster

    def examine_before(self) -> Iterator[Finding]:
        """Yield what Google would refuse of a cluster that does not exist yet."""
        subject = f"cluster {self.spec.name}"
        yield right("cloud", subject, f"not found: `up` creates it in project {self.gke.project}")
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

    def describe_bill(self) -> Sequence[str]:
        """Return the existing parts of the cluster and their price; raises CloudError."""
        place = self._location
        return describe_existing(self.gke, self.spec, self.prices, self._command, place)

    def list_held(self, *, copied: bool) -> Sequence[Held]:
        """Return the clusters that the deletion rule keeps; raises CloudError."""
        terms, waiter = replace(self._terms, copied=copied), Waiter()
        found = list_held(self.gke, self.spec.name, waiter, terms)
        return [Held(one.words, one.foreign) for one in found]

    def list_results(self) -> Sequence[str]:
        """Return the caller's disks with results, including an earlier cluster's of this name."""
        found = list_inventory(self.gke, self.spec.name, self.gke.owner.id, self._location)
        return [describe_results(one, self.prices) for one in found.disks if one.holds_results]

    def remove(self, removal: Removal) -> None:
        """Delete the cluster and everything created for it; raises CloudError on leftovers."""
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

    def get_usd_per_hour(self, agents: Sequence[Agent]) -> float | None:
        pods = len({agent.pod or agent.name for agent in agents if agent.alive})
        found = self.require()
        pools = estimate_pools(self.spec, found.location, self.prices, found.pool_names, pods)
        return pools.usd_per_hour

    def add_pool(self, refused: str) -> list[str]:
        """Add the specification's next pool, since GPUs are `refused`; return what was done."""
        found = self.require()
        try:
            pool = add_next_pool(self.gke, self.spec, found)
        except CloudError as error:  # agents wait for existing nodes
            hint = f" ({error.hint})" if error.hint else ""
            return [f"{refused}: cannot add another pool now: {error.message}{hint}"]
        if pool is None:
            return []
        self._found = replace(found, pools=(*found.pools, pool))
        price = describe_pool(self.spec, found.location, pool.name, self.prices)
        return [f"{refused}: added pool {pool.name}", price]


class GkeTarget(Target):
    """The cluster as Kubernetes: Google provides its address and login."""

    def __init__(self, name: str, project: Project, cluster: GkeCluster) -> None:
        super().__init__(name, project)
        self._cluster = cluster

    @cached_property
    def kube(self) -> Kube:
        """The client of the cluster; raises CloudError if there is none."""
        cluster = self._cluster
        return open_kube_of(cluster.gke, cluster.require(), self.project.kubernetes.namespace)

    @cached_property
    def builder(self) -> ManifestBuilder:
        """The manifest builder, with what agents need on the specification's nodes."""
        builder = ManifestBuilder(self.project)
        if self._cluster.spec.needs_host_ipc:
            builder.section = replace(builder.section, host_ipc=True)
        return builder


class GkeBackendHost(ClusterBackendHost):
    """The backend, whose disk outlives the cluster."""

    def __init__(self, target: Target, cluster: GkeCluster) -> None:
        super().__init__(target)
        self._cluster = cluster

    def prepare(self) -> None:
        """Bind the backend's claim to the disk of an earlier cluster of this name."""
        target, cluster = self._target, self._cluster
        section = replace(target.builder.section, namespace=target.kube.namespace)
        section = section if section.image else replace(section, image=NOT_BUILT)
        claim, *_ = build_backend(load_backend_templates(), b"", target.project.backend, section)
        reuse_disk(cluster.gke, cluster.require(), target.kube, claim)

    def save_results(self) -> Saved | None:
        """Copy the backend's content from the cluster to a local folder; None without one."""
        found = self._cluster.look_up()
        if found is None or not found.endpoint:  # nothing has ever run in it
            return None
        return super().save_results()


def reuse_disk(gke: Gke, cluster: CloudCluster, kube: Kube, claim: Manifest) -> None:
    """Bind the backend's claim, unless one exists, to the newest disk with earlier results.

    Logs disks in other locations and leaves them alone. Raises KubeError. Raises BackendError for a
    disk that is still attached: without it the results would seem lost.
    """
    if find_data(kube):
        return
    try:
        disks = _list_disks(gke, cluster, kube.namespace)
    except CloudError as error:
        LOG.info(f"could not check for disks with results of an earlier cluster: {error.message}")
        return
    disk = choose_disk(cluster, disks)
    if disk is None:
        for one in disks:
            LOG.info(
                f"disk {one.name} has results of an earlier cluster {cluster.name}; to use them, "
                f"set location: {one.location} in the specification"
            )
        return
    if disk.users:
        raise BackendError(
            f"disk {disk.name} has the backend's results and is attached to {disk.users[0]}",
            "wait until that machine is gone, then type the command again",
        )
    volume = build_volume(gke.project, disk, kube.namespace, claim["metadata"]["name"])
    if not kube.create_once(volume):  # it is bound to a deleted claim
        kube.patch(
            VOLUME, disk.name, {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
        )
    kube.create_once(bind_claim(claim, disk))
    LOG.info(
        f"the embedded backend reuses disk {disk.name}, which has results of an earlier cluster"
    )


def choose_disk(cluster: CloudCluster, disks: Sequence[CloudDisk]) -> CloudDisk | None:
    """Return the newest disk that the cluster's nodes can attach; None if none; pure."""
    places = {cluster.location, region_of(cluster.location)}
    near = [
        disk
        for disk in disks
        if disk.location in places or region_of(disk.location) == cluster.location
    ]
    return max(near, key=lambda disk: disk.used_at, default=None)


def build_volume(project: str, disk: CloudDisk, namespace: str, claim: str) -> Manifest:
    """Return the volume for an existing disk, reserved for one claim, which it outlives; pure.

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
    # With the annotation the driver deletes the disk once `--delete-data` has released the volume.
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
        "storageClassName": "",  # else the default class creates another disk
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


def remove_with_proof(gke: Gke, spec: ClusterSpec, terms: Terms, prices: Prices) -> Inventory:
    """Delete a cluster and everything created for it; report that nothing is left.

    Disks with results stay unless `terms` allow their deletion. Raises CloudError naming what else
    stays.
    """
    left = remove_cluster(gke, spec, terms=terms)
    report_rest(spec.name, left, prices, gke.project)
    return left
