"""The state of a cluster's backend, and its removal with or without its data."""

from __future__ import annotations

import time

from deployer.backend.server.daemon import Health, probe
from deployer.errors import BackendError, KubeError, Refusals
from deployer.executors.kubernetes.backend.deployment import (
    SELECTOR,
    ClusterBackend,
    choose_hint,
    explain_absence,
)
from deployer.executors.kubernetes.backend.host import open_forward
from deployer.kube.client import Kube
from deployer.kube.objects import (
    CLAIM,
    CONFIG_MAP,
    NETWORK_POLICY,
    OWNER_LABEL,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    VOLUME,
    Kind,
    Manifest,
    find_container_state,
)

POLL_SECONDS = 0.5
PATIENCE_SECONDS = 90.0  # more than its pod's grace period
PROBE_SECONDS = 10.0  # slow, through the API server and the kubelet


def remove_backend(
    kube: Kube, refusals: Refusals, *, delete_data: bool, everyone: bool = False
) -> bool:
    """Delete the caller's backend and wait until its pod is gone; return False if there was none.

    `everyone` also stops another owner's. The claim with the data stays without `delete_data`;
    another owner's always stays. Raises KubeError if the server itself cannot be deleted; other
    refusals are recorded, and the rest is deleted.
    """
    of_caller = f"{SELECTOR},{OWNER_LABEL}={kube.owner.id}"
    selector = SELECTOR if everyone else of_caller
    there = bool(_list_names(kube, STATEFUL_SET, selector))
    _delete(kube, STATEFUL_SET, selector)
    for kind in (SERVICE, NETWORK_POLICY, SECRET, CONFIG_MAP):
        with refusals.noted():
            _delete(kube, kind, selector)
    with refusals.noted():
        if there or delete_data:
            _wait(kube, POD, selector)
        if delete_data:
            # Also delete volumes that outlive their claims, as the timer on GKE configures them.
            for volume in _list(kube, VOLUME, of_caller):
                if (volume["spec"].get("claimRef") or {}).get("namespace") == kube.namespace:
                    change = {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
                    kube.patch(VOLUME, volume["metadata"]["name"], change)
            _delete(kube, CLAIM, of_caller)
            _wait(kube, CLAIM, of_caller)
    return there


def find_data(kube: Kube) -> str:
    """Return the name of the claim with the backend's data; empty if there is none."""
    return next(iter(_list_names(kube, CLAIM)), "")


def list_backend(kube: Kube) -> list[Manifest]:
    """Return the backend's StatefulSet and claim, of any owner. Raises KubeError."""
    return [one for kind in (STATEFUL_SET, CLAIM) for one in _list(kube, kind, SELECTOR)]


def _delete(kube: Kube, kind: Kind, selector: str) -> None:
    for name in _list_names(kube, kind, selector):
        kube.delete(kind, name)


def _wait(kube: Kube, kind: Kind, selector: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := _list_names(kube, kind, selector):
        if time.monotonic() > deadline:
            named = f"{kind.kind.lower()}/{left[0]}"
            raise KubeError(
                f"{named} of the embedded backend was not deleted in namespace {kube.namespace}",
                kube.with_context(f"kubectl describe {named} -n {kube.namespace}"),
            )
        time.sleep(POLL_SECONDS)


def _list_names(kube: Kube, kind: Kind, selector: str = SELECTOR) -> list[str]:
    return [str(one["metadata"]["name"]) for one in _list(kube, kind, selector)]


def _list(kube: Kube, kind: Kind, selector: str) -> list[Manifest]:
    """Return existing objects; a user who may not create a kind has none of it.

    Raises KubeError if objects may exist that may not be listed.
    """
    try:
        return kube.list_objects(kind, selector)
    except KubeError as error:
        if not error.forbidden or kube.is_allowed("create", kind):
            raise
        return []


def examine_backend(kube: Kube, backend: ClusterBackend) -> Health:
    """Return the server's health; without permission, its pod's readiness. Raises KubeError."""
    if not find_container_state(kube.get(POD, backend.pod) or {}, "running"):
        return Health.AWAY
    try:
        forward = open_forward(kube, backend, patient=False)
    except KubeError as error:
        if not error.forbidden:
            raise
        return Health.READY if backend.ready else Health.AWAY
    with forward:
        return probe(forward.url, PROBE_SECONDS)


def describe_trouble(kube: Kube, backend: ClusterBackend, health: Health) -> BackendError | None:
    """Return the error and fix of a backend; None if it is healthy. Raises KubeError."""
    if health is Health.HUNG:
        return BackendError(
            f"the embedded backend hangs: pod {backend.pod} does not respond",
            kube.with_context(
                "replace it, its data stays: "
                f"kubectl delete pod {backend.pod} -n {backend.namespace}"
            ),
        )
    if health is Health.DISK_FULL:
        claim = find_data(kube)
        return BackendError(
            f"the disk of the embedded backend is full: PersistentVolumeClaim {claim}",
            kube.with_context(
                "enlarge it, where its storage class allows that: "
                f"kubectl edit pvc {claim} -n {backend.namespace}"
            ),
        )
    if health is Health.AWAY:
        why = explain_absence(kube, backend.name)
        said = f"the embedded backend is not ready: {why.words or 'its server is starting'}"
        return BackendError(said, choose_hint(kube, backend.name, why))
    return None
