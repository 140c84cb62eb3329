"""Empties a cluster before it is deleted, so that it leaves no disks and load balancers behind."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

from deployer.errors import DeployerError
from deployer.gke.api.operations import Waiter
from deployer.kube.client import Kube
from deployer.kube.kinds import (
    CLAIM,
    DEPLOYMENT,
    INGRESS,
    JOB,
    SERVICE,
    STATEFUL_SET,
    VOLUME,
    Kind,
    Manifest,
)
from deployer.kube.names import BACKEND, build_selector
from deployer.text import format_seconds

LOG = logging.getLogger(__name__)

# What of ours holds claims; others' pods end with the cluster.
HOLDERS = (JOB, DEPLOYMENT, STATEFUL_SET)
PATIENCE_SECONDS = 180.0  # for load balancers and disks to go; GKE takes a minute


def empty_cluster(
    open_kube: Callable[[], Kube],
    waiter: Waiter,
    patience_seconds: float = PATIENCE_SECONDS,
    *,
    keep_results: bool = False,
) -> None:
    """Delete our Jobs, all load balancers and all claims, and wait for their volumes.

    With `keep_results` an embedded backend's claim stays, and so its disk. Where its Kubernetes
    does not answer or things do not go in time, it says so: what is left is looked for outside of
    the cluster.
    """
    try:
        every = open_kube().in_namespace("")
        for kind in HOLDERS:
            _delete_all(every, kind, every.list_objects(kind, build_selector()))
        _delete_all(every, INGRESS, every.list_objects(INGRESS))
        _delete_all(every, SERVICE, _list_balancers(every))
        kept = every.list_objects(CLAIM, build_selector(component=BACKEND)) if keep_results else []
        names = {_name(claim) for claim in kept}
        claims = every.list_objects(CLAIM)
        _delete_all(every, CLAIM, [one for one in claims if _name(one) not in names])
        _wait(every, waiter, patience_seconds, names)
    except DeployerError as error:
        LOG.info(f"going on without the cluster's Kubernetes: {error.message}")


def _delete_all(kube: Kube, kind: Kind, items: Sequence[Manifest]) -> None:
    for item in items:
        metadata = item["metadata"]
        if not metadata.get("deletionTimestamp"):
            kube.in_namespace(metadata["namespace"]).delete(kind, metadata["name"])


def _wait(kube: Kube, waiter: Waiter, patience_seconds: float, kept: Set[str]) -> None:
    shown, left = "", _list_left(kube, kept)
    for elapsed in waiter.pauses() if left else ():
        words = ", ".join(left)
        if words != shown:
            LOG.info(f"waiting for {words} to go")
            shown = words
        left = _list_left(kube, kept)
        if not left:
            return
        if elapsed > patience_seconds:
            LOG.info(f"after {format_seconds(elapsed)} still there: {', '.join(left)}")
            return


def _list_left(kube: Kube, kept: Set[str]) -> list[str]:
    names = [f"Ingress {_name(one)}" for one in kube.list_objects(INGRESS)]
    names += [f"Service {_name(one)}" for one in _list_balancers(kube)]
    claims = {_name(one) for one in kube.list_objects(CLAIM)} - kept
    names += [f"PersistentVolumeClaim {one}" for one in sorted(claims)]
    return names + [f"PersistentVolume {_name(one)}" for one in _list_going(kube, kept)]


def _list_balancers(kube: Kube) -> list[Manifest]:
    services = kube.list_objects(SERVICE)
    return [one for one in services if one["spec"].get("type") == "LoadBalancer"]


def _list_going(kube: Kube, kept: Set[str]) -> Iterator[Manifest]:
    """Yield the volumes that are deleted with their claims; those that failed do not go."""
    for volume in kube.list_objects(VOLUME):
        spec, phase = volume["spec"], (volume.get("status") or {}).get("phase")
        claim = spec.get("claimRef") or {}
        stays = f"{claim.get('namespace')}/{claim.get('name')}" in kept
        deleted = spec.get("persistentVolumeReclaimPolicy") == "Delete" and claim and not stays
        if deleted and phase != "Failed":
            yield volume


def _name(item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
