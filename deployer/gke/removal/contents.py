"""Empties a cluster before it is deleted, so that it leaves no disks and load balancers behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from deployer.errors import DeployerError
from deployer.gke.api.operations import Waiter
from deployer.kube.client import Kube
from deployer.kube.kinds import CLAIM, JOB, SERVICE, STATEFUL_SET, VOLUME, Kind, Manifest
from deployer.kube.names import build_selector
from deployer.text import format_seconds

INGRESS = Kind("networking.k8s.io/v1", "Ingress", "ingresses")
# What of ours holds claims; others' pods end with the cluster.
HOLDERS = (JOB, Kind("apps/v1", "Deployment", "deployments"), STATEFUL_SET)
PATIENCE_SECONDS = 180.0  # for load balancers and disks to go; GKE takes a minute


def empty_cluster(
    open_kube: Callable[[], Kube], waiter: Waiter, patience_seconds: float = PATIENCE_SECONDS
) -> None:
    """Delete our Jobs, all load balancers and all claims, and wait for their volumes.

    The cluster is ours, so all that is in it goes. Where its Kubernetes does not answer or things
    do not go in time, it says so: what is left is looked for outside of the cluster.
    """
    try:
        every = open_kube().in_namespace("")
        for kind in HOLDERS:
            _delete_all(every, kind, every.list_objects(kind, build_selector()))
        _delete_all(every, INGRESS, every.list_objects(INGRESS))
        _delete_all(every, SERVICE, _list_balancers(every))
        _delete_all(every, CLAIM, every.list_objects(CLAIM))
        _wait(every, waiter, patience_seconds)
    except DeployerError as error:
        waiter.tell(f"going on without the cluster's Kubernetes: {error.message}")


def _delete_all(kube: Kube, kind: Kind, items: Sequence[Manifest]) -> None:
    for item in items:
        metadata = item["metadata"]
        if not metadata.get("deletionTimestamp"):
            kube.in_namespace(metadata["namespace"]).delete(kind, metadata["name"])


def _wait(kube: Kube, waiter: Waiter, patience_seconds: float) -> None:
    shown, left = "", _list_left(kube)
    for elapsed in waiter.pauses() if left else ():
        words = ", ".join(left)
        if words != shown:
            waiter.tell(f"waiting for {words} to go")
            shown = words
        left = _list_left(kube)
        if not left:
            return
        if elapsed > patience_seconds:
            waiter.tell(f"after {format_seconds(elapsed)} still there: {', '.join(left)}")
            return


def _list_left(kube: Kube) -> list[str]:
    names = [f"Ingress {_name(one)}" for one in kube.list_objects(INGRESS)]
    names += [f"Service {_name(one)}" for one in _list_balancers(kube)]
    names += [f"PersistentVolumeClaim {_name(one)}" for one in kube.list_objects(CLAIM)]
    return names + [f"PersistentVolume {_name(one)}" for one in _list_going(kube)]


def _list_balancers(kube: Kube) -> list[Manifest]:
    services = kube.list_objects(SERVICE)
    return [one for one in services if one["spec"].get("type") == "LoadBalancer"]


def _list_going(kube: Kube) -> Iterator[Manifest]:
    """Yield the volumes that are deleted with their claims; those that failed do not go."""
    for volume in kube.list_objects(VOLUME):
        spec, phase = volume["spec"], (volume.get("status") or {}).get("phase")
        deleted = spec.get("persistentVolumeReclaimPolicy") == "Delete" and spec.get("claimRef")
        if deleted and phase != "Failed":
            yield volume


def _name(item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
