"""A short-lived Job that runs one command in a pod, and deletes itself if we cannot."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.executors.kubernetes.diagnose.pending import Patience, PendingPods
from deployer.findings import Finding
from deployer.kube.client import Kube
from deployer.kube.kinds import JOB, POD, Manifest
from deployer.kube.names import build_labels
from deployer.kube.objects import find_container_state
from deployer.waiting import waiting_for

COMPONENT = "image-check"
TTL_SECONDS = 60  # then it deletes itself
POLL_SECONDS = 0.5
RESOURCES = {"cpu": "100m", "memory": "128Mi"}


@dataclass(frozen=True)
class Answer:
    """How a probe's container ended; without `exit_code` it did not, and `reason` may say why."""

    exit_code: int | None = None
    last_line: str = ""
    reason: Finding | None = None


def build_probe(
    pod: Mapping[str, Any], metadata: Mapping[str, Any], command: Sequence[str], seconds: int
) -> Manifest:
    """Return a Job with the image of a pod's first container that runs a command; pure.

    It mounts nothing. Namespace and labels are those of `metadata`; it ends after `seconds`.
    """
    labels = {**(metadata.get("labels") or {}), **build_labels(COMPONENT)}
    spec = {
        "activeDeadlineSeconds": seconds,
        "ttlSecondsAfterFinished": TTL_SECONDS,
        "backoffLimit": 0,
        "template": {"metadata": {"labels": labels}, "spec": _slim(pod, list(command))},
    }
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {
            "name": f"deployer-image-check-{uuid.uuid4().hex[:8]}",
            "namespace": metadata.get("namespace"),
            "labels": labels,
        },
        "spec": spec,
    }


def _slim(pod: Mapping[str, Any], command: list[str]) -> dict[str, Any]:
    kept = {name: value for name, value in pod.items() if name not in ("volumes", "initContainers")}
    container = pod["containers"][0]
    slim = ("name", "image", "imagePullPolicy", "securityContext")
    probe = {name: container[name] for name in slim if name in container}
    env = [one for one in container.get("env") or () if "value" in one]
    resources = {"requests": dict(RESOURCES), "limits": dict(RESOURCES)}
    probe |= {"command": command, "env": env, "resources": resources}
    probe |= {"terminationMessagePolicy": "FallbackToLogsOnError"}
    ends = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    return {**kept, "containers": [probe], **ends}


def run_probe(
    kube: Kube,
    job: Manifest,
    grows: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> Answer:
    """Create the Job, wait until its pod has ended, and delete it; tell why the pod waits.

    Gives up where no waiting helps, and at the Job's deadline. Raises KubeError.
    """
    name = job["metadata"]["name"]
    kube.create(job)
    try:
        with waiting_for(f"Job {name} in namespace {kube.namespace}"):
            return _wait(kube, job, PendingPods(kube, grows), sleep)
    finally:
        kube.delete(JOB, name)


def _wait(
    kube: Kube,
    job: Manifest,
    pending: PendingPods,
    sleep: Callable[[float], None],
) -> Answer:
    name = job["metadata"]["name"]
    patience = Patience(f"Job {name}")
    deadline = time.monotonic() + job["spec"]["activeDeadlineSeconds"]
    while True:
        pods = kube.list_objects(POD, f"job-name={name}")
        if ended := find_container_state(pods[0], "terminated") if pods else None:
            said = str(ended.get("message") or "").strip().splitlines()
            return Answer(ended.get("exitCode"), said[-1] if said else "")
        reason = pending.explain([(job, pods[0] if pods else None)]).get(name)
        line, permanent = (reason.line, reason.is_permanent) if reason else ("", False)
        if patience.is_over(line, permanent) or time.monotonic() > deadline:
            return Answer(reason=reason)
        sleep(POLL_SECONDS)
