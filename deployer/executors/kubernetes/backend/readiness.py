"""Waits until the backend in a cluster serves, and says why it does not."""

from __future__ import annotations

import time
from collections.abc import Callable

from deployer.errors import BackendError
from deployer.executors.kubernetes.waiting.pending_pods import PendingPods
from deployer.kube.client import Kube
from deployer.kube.kinds import POD, STATEFUL_SET, Manifest
from deployer.kube.objects import find_condition, find_container_state

START_SECONDS = 300.0  # pulling an image and getting a disk; a node may have to be made
POLL_SECONDS = 1.0
HOPELESS_RESTARTS = 2


def is_up(stateful_set: Manifest) -> bool:
    """Tell whether the pod of the newest description is ready."""
    status, metadata = stateful_set.get("status") or {}, stateful_set["metadata"]
    return (
        status.get("observedGeneration") == metadata.get("generation")
        and status.get("readyReplicas") == 1
        and status.get("currentRevision") == status.get("updateRevision")
    )


def wait_until_up(kube: Kube, name: str, tell: Callable[[str], None]) -> None:
    """Wait until the backend's StatefulSet is ready, and tell once each why it is not yet.

    Raises KubeError, and BackendError if it does not come up.
    """
    deadline, told = time.monotonic() + START_SECONDS, {""}
    pending = PendingPods(kube)
    while True:
        stateful_set = kube.get(STATEFUL_SET, name)
        if stateful_set is not None and is_up(stateful_set):
            return
        pod = kube.get(POD, f"{name}-0")
        why = _explain(pending, name, pod)
        if _is_hopeless(pod) or time.monotonic() > deadline:
            raise BackendError(
                f"the embedded backend in namespace {kube.namespace} does not come up: {why}",
                choose_hint(kube, name, why),
            )
        if why not in told:
            told.add(why)
            tell(f"waiting for the embedded backend: {why}")
        time.sleep(POLL_SECONDS)


def explain_absence(kube: Kube, name: str) -> str:
    """Say why the backend does not serve; empty while its server starts. Raises KubeError."""
    return _explain(PendingPods(kube), name, kube.get(POD, f"{name}-0"))


def _explain(pending: PendingPods, name: str, pod: Manifest | None) -> str:
    ended = (_find_last(pod) or {}).get("message", "")
    if ended:
        return str(ended).strip().splitlines()[-1]
    if pod is None or (pod.get("status") or {}).get("phase") != "Running":
        found = pending.explain([({"metadata": {"name": name}}, pod)])
        return found[name].line if name in found else ""
    return ""  # its server starts, which takes seconds


def _find_last(pod: Manifest | None) -> Manifest | None:
    """Return how the pod's container ended last."""
    statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or ()
    ends = ((one.get("lastState") or {}).get("terminated") for one in statuses)
    return next((dict(end) for end in ends if end), None)


def _is_hopeless(pod: Manifest | None) -> bool:
    """Tell whether the container has ended again and again, or its image is not to be had."""
    if pod is None or find_condition(pod, "Ready"):
        return False
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    waiting = find_container_state(pod, "waiting") or {}
    often = any(one.get("restartCount", 0) >= HOPELESS_RESTARTS for one in statuses)
    return often or waiting.get("reason") in ("ImagePullBackOff", "InvalidImageName")


def choose_hint(kube: Kube, name: str, why: str) -> str:
    """Return what to do about a backend that does not come up, by what is said about it."""
    if "No module named" in why or "executable file not found" in why:
        return "backend: {image: …} in deployer.yaml: an image with Python and deployer in it"
    if "PersistentVolumeClaim" in why or "persistentvolumeclaim" in why:
        return "backend: {storage_class: …} in deployer.yaml; kubectl get storageclass"
    return f"kubectl describe pod {name}-0 -n {kube.namespace}"
