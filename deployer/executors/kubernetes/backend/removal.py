"""Removes the backend from a cluster, and its data if that is wanted."""

from __future__ import annotations

import time

from deployer.errors import KubeError, Refusals
from deployer.executors.kubernetes.backend.deployment import SELECTOR
from deployer.kube.client import Kube
from deployer.kube.kinds import CLAIM, POD, SECRET, SERVICE, STATEFUL_SET, Kind

POLL_SECONDS = 0.5
FORBIDDEN = 403
PATIENCE_SECONDS = 90.0  # beyond the grace of its pod


def remove_backend(kube: Kube, refusals: Refusals, *, delete_data: bool) -> bool:
    """Delete what our labels find and wait until the pod is gone; tell whether there was one.

    The claim with the data stays without `delete_data`. Raises KubeError if the server itself
    cannot be deleted; what else is refused is noted, and the rest goes.
    """
    there = bool(_list_names(kube, STATEFUL_SET))
    _delete(kube, STATEFUL_SET)
    for kind in (SERVICE, SECRET):
        with refusals.noted():
            _delete(kube, kind)
    with refusals.noted():
        if there or delete_data:
            _wait(kube, POD)
        if delete_data:
            _delete(kube, CLAIM)
            _wait(kube, CLAIM)
    return there


def find_data(kube: Kube) -> str:
    """Return the name of the claim that holds the backend's data; empty if there is none."""
    return next(iter(_list_names(kube, CLAIM)), "")


def _delete(kube: Kube, kind: Kind) -> None:
    for name in _list_names(kube, kind):
        kube.delete(kind, name)


def _wait(kube: Kube, kind: Kind) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := _list_names(kube, kind):
        if time.monotonic() > deadline:
            named = f"{kind.kind.lower()}/{left[0]}"
            raise KubeError(
                f"{named} of the embedded backend does not go in namespace {kube.namespace}",
                f"kubectl describe {named} -n {kube.namespace}",
            )
        time.sleep(POLL_SECONDS)


def _list_names(kube: Kube, kind: Kind) -> list[str]:
    """Return the names of what is there; who may not make a kind either has made none of it.

    Raises KubeError where something may be there and nobody lets us look.
    """
    try:
        return [str(one["metadata"]["name"]) for one in kube.list_objects(kind, SELECTOR)]
    except KubeError as error:
        if error.status != FORBIDDEN or kube.is_allowed("create", kind):
            raise
        return []
