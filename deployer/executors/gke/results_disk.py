"""Gives a cluster's backend the disk that outlived an earlier cluster of the same name."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import Any

from deployer.errors import BackendError, CloudError
from deployer.executors.gke.idle_timer import DISK_DRIVER
from deployer.executors.kubernetes.backend.removal import find_data
from deployer.gke.api.client import Gke
from deployer.gke.api.compute import CloudDisk, Compute
from deployer.gke.api.model import CloudCluster
from deployer.gke.specification.parts import is_zone, region_of
from deployer.gke.specification.spec import CLUSTER_LABEL, OWNER_LABEL
from deployer.kube.client import Kube
from deployer.kube.kinds import CLAIM, VOLUME, Manifest
from deployer.kube.names import BACKEND, build_labels

LOG = logging.getLogger(__name__)

ZONE_LABEL = "topology.gke.io/zone"


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
    """Return the owner's disks with results of such a cluster and namespace."""
    owner = cluster.labels.get(OWNER_LABEL)
    return [
        disk
        for disk in Compute(gke).list_disks(f"labels.{CLUSTER_LABEL}={cluster.name}")
        if disk.holds_results
        and disk.namespace == namespace
        and disk.labels.get(OWNER_LABEL) == owner
    ]
