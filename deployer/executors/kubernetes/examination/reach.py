"""Whether pods reach the W&B server: asked by a Job that ends, and deletes itself, in any case."""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from deployer.executors.findings import Finding, right, unknown, wrong
from deployer.executors.kubernetes.examination.case import Case
from deployer.executors.kubernetes.waiting.pending_pods import PendingPods
from deployer.executors.reason import Reason
from deployer.kube.kinds import JOB, POD, Manifest
from deployer.kube.names import build_labels
from deployer.kube.objects import find_container_state

COMPONENT = "doctor"
DEADLINE_SECONDS = 120  # of the pod, its pull included
TTL_SECONDS = 60  # then it deletes itself, whoever has died meanwhile
LOOK_SECONDS = 0.5
ASK = """
import sys, urllib.error, urllib.request
try:
    urllib.request.urlopen(sys.argv[1], timeout=15)
except urllib.error.HTTPError:
    pass
except Exception as error:
    sys.exit(str(error))
"""
RESOURCES = {"cpu": "100m", "memory": "128Mi"}


def examine_reach(
    case: Case, base_url: str, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Finding]:
    """Open the server's address in a pod with the agents' image. Raises KubeError."""
    if case.job is None:
        return
    job = build_probe(case.job, base_url, case.section.python)
    name = job["metadata"]["name"]
    case.kube.create(job)
    try:
        yield _wait(case, job, base_url, sleep)
    finally:
        case.kube.delete(JOB, name)


def build_probe(job: Manifest, base_url: str, python: str) -> Manifest:
    """Return a Job as the agents' that only opens an address; it mounts nothing; pure."""
    probe = copy.deepcopy(job)
    metadata = probe["metadata"]
    labels = {**(metadata.get("labels") or {}), **build_labels(COMPONENT)}
    probe["metadata"] = {
        "name": f"deployer-doctor-{uuid.uuid4().hex[:8]}",
        "namespace": metadata.get("namespace"),
        "labels": labels,
    }
    spec = probe["spec"]
    spec |= {"activeDeadlineSeconds": DEADLINE_SECONDS, "ttlSecondsAfterFinished": TTL_SECONDS}
    spec |= {"backoffLimit": 0}
    spec.pop("podFailurePolicy", None)
    pod = spec["template"]
    pod["metadata"] = {"labels": labels}
    pod["spec"] = _strip(pod["spec"], [python, "-c", ASK, base_url])
    return probe


def _strip(spec: Mapping[str, Any], command: list[str]) -> dict[str, Any]:
    """Return a pod without volumes, GPUs and what chooses their nodes."""
    gone = ("volumes", "nodeSelector", "affinity", "initContainers", "runtimeClassName", "hostIPC")
    kept = {name: value for name, value in spec.items() if name not in gone}
    container = spec["containers"][0]
    slim = ("name", "image", "imagePullPolicy", "securityContext")
    probe = {name: container[name] for name in slim if name in container}
    env = [one for one in container.get("env") or () if "value" in one]
    resources = {"requests": dict(RESOURCES), "limits": dict(RESOURCES)}
    probe |= {"command": command, "env": env, "resources": resources}
    probe |= {"terminationMessagePolicy": "FallbackToLogsOnError"}
    return {**kept, "containers": [probe], "terminationGracePeriodSeconds": 1}


def _wait(case: Case, job: Manifest, base_url: str, sleep: Callable[[float], None]) -> Finding:
    name, pending = job["metadata"]["name"], PendingPods(case.kube, case.grows)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        pods = case.kube.list_objects(POD, f"job-name={name}")
        ended = find_container_state(pods[0], "terminated") if pods else None
        if ended:
            return judge_end(base_url, ended)
        reason = pending.explain([(job, pods[0] if pods else None)]).get(name)
        late = time.monotonic() > deadline
        if late or (reason and reason.hopeless):
            return _give_up(case, reason)
        sleep(LOOK_SECONDS)


def judge_end(base_url: str, ended: Mapping[str, Any]) -> Finding:
    """Say what the pod found; pure."""
    subject = f"pods to {base_url}"
    if ended.get("exitCode") == 0:
        return right("reach-inside", subject, "a pod reaches it")
    said = (str(ended.get("message") or "").strip().splitlines() or ["it did not say why"])[-1]
    remedy = f"kubectl get networkpolicies,svc -A; is {base_url} an address inside the cluster?"
    return wrong("reach-inside", subject, f"a pod does not reach it: {said}", remedy)


def _give_up(case: Case, reason: Reason | None) -> Finding:
    why, remedy = (reason.sentence, reason.remedy) if reason else ("nobody says why", "")
    said = f"the pod that should ask does not start: {why}"
    return unknown("reach-inside", f"pods in {case.namespace}", said, remedy)
