"""Waits until the backend in a cluster serves, and says why it does not."""

from __future__ import annotations

import time
from dataclasses import dataclass

from deployer.config.causes import Cause
from deployer.errors import BackendError
from deployer.executors.kubernetes.diagnose.pending import Patience, PendingPods
from deployer.findings import Finding, edit
from deployer.kube.client import Kube
from deployer.kube.kinds import POD, STATEFUL_SET, Manifest
from deployer.kube.objects import find_condition

START_SECONDS = 300.0  # pulling an image and getting a disk; a node may have to be made
POLL_SECONDS = 1.0
HOPELESS_RESTARTS = 2
# An older Python (78), one that lacks a part of its library (1), and what runtimes say of a program
# that cannot be run. Our server never ends with these: backend/server/foreground.py.
NO_SUCH_PYTHON = (1, 78, 126, 127, 128)


def is_up(stateful_set: Manifest) -> bool:
    """Tell whether the pod of the newest description is ready."""
    status, metadata = stateful_set.get("status") or {}, stateful_set["metadata"]
    return (
        status.get("observedGeneration") == metadata.get("generation")
        and status.get("readyReplicas") == 1
        and status.get("currentRevision") == status.get("updateRevision")
    )


@dataclass(frozen=True)
class Absence:
    """Why the backend does not serve; nothing is said while its server starts.

    `reason` is why its pod does not run, `exit_code` how its container ended last, `restarts` how
    often it has.
    """

    words: str = ""
    reason: Finding | None = None
    exit_code: int | None = None
    restarts: int = 0

    @property
    def hopeless(self) -> bool:
        """Tell whether no waiting mends it."""
        return self.restarts >= HOPELESS_RESTARTS or bool(self.reason and self.reason.is_permanent)


def wait_until_up(kube: Kube, name: str) -> None:
    """Wait until the backend's StatefulSet is ready, and log each reason once.

    Raises KubeError, and BackendError if it does not come up.
    """
    deadline, pending = time.monotonic() + START_SECONDS, PendingPods(kube)
    patience = Patience("the embedded backend")
    while True:
        stateful_set = kube.get(STATEFUL_SET, name)
        if stateful_set is not None and is_up(stateful_set):
            return
        why = _explain(pending, name, kube.get(POD, f"{name}-0"))
        if patience.is_over(why.words, why.hopeless) or time.monotonic() > deadline:
            said = f"the embedded backend in namespace {kube.namespace} does not come up"
            raise BackendError(f"{said}: {why.words}", choose_hint(kube, name, why))
        time.sleep(POLL_SECONDS)


def explain_absence(kube: Kube, name: str) -> Absence:
    """Say why the backend does not serve. Raises KubeError."""
    return _explain(PendingPods(kube), name, kube.get(POD, f"{name}-0"))


def choose_hint(kube: Kube, name: str, why: Absence) -> str:
    """Return what to do about a backend that does not come up."""
    if why.exit_code in NO_SUCH_PYTHON:
        return f"{edit('backend', 'image: …')}: an image with Python 3.11 or newer"
    if why.reason and why.reason.code is Cause.CLAIM_UNBOUND:
        hint = f"{edit('backend', 'storage_class: …')}; kubectl get storageclass"
    else:
        hint = f"kubectl describe pod {name}-0 -n {kube.namespace}"
    return kube.with_context(hint)


def read_end(pod: Manifest | None) -> Absence | None:
    """Return how the pod's container ended last; None if it is ready, or never has; pure."""
    if pod is None or find_condition(pod, "Ready"):
        return None
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (one.get("lastState") or {}).get("terminated")
        if ended:
            words = str(ended.get("message") or "").strip().splitlines()[-1:]
            said = words[0] if words else f"its server ended with {ended.get('exitCode')}"
            return Absence(said, None, ended.get("exitCode"), one.get("restartCount", 0))
    return None


def _explain(pending: PendingPods, name: str, pod: Manifest | None) -> Absence:
    if ended := read_end(pod):
        return ended
    if pod is None or (pod.get("status") or {}).get("phase") != "Running":
        reason = pending.explain([({"metadata": {"name": name}}, pod)]).get(name)
        return Absence(reason.line, reason) if reason else Absence()
    return Absence()  # its server starts, which takes seconds
