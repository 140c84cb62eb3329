"""Explains why an agent does not start or has ended; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from deployer.executors.base import Waiting
from deployer.kube.objects import USUAL_WAITING, find_condition, find_container_state

Manifest = Mapping[str, Any]

NO_NODE = "FailedScaleUp"  # the cluster autoscaler's word: no node can be had
# The kubelet's words for an image that it could not pull, and for the wait until it tries again.
NOT_PULLED = "ErrImagePull"
BETWEEN_PULLS = "ImagePullBackOff"
# The supervisor's last line; the kubelet keeps a failed container's last lines.
SUPERVISOR_SAID = re.compile(r"ended with exit code \d+: (.+)$", re.MULTILINE)


def explain_waiting(job: Manifest, pod: Manifest | None, causes: Mapping[str, str]) -> str:
    """Say why an agent has not started; `causes` are the newest warnings by object."""
    if find_condition(job, "Suspended"):
        return f"suspended: {(find_condition(job, 'Suspended') or {}).get('message', '')}"
    if pod is None or pod["status"].get("phase") in ("Succeeded", "Failed"):
        cause = causes.get(job["metadata"]["name"], "")
        if pod is None:
            return cause
        return "; ".join(filter(None, (explain_pod_end(pod), cause or "is started again")))
    unscheduled = find_condition(pod, "PodScheduled", "False")
    if unscheduled:
        said = f"{unscheduled.get('reason', '')}: {unscheduled.get('message', '')}"
        cause = causes.get(pod["metadata"]["name"], "")
        return f"{cause}; {said}" if cause.startswith(NO_NODE) else said
    waiting = find_container_state(pod, "waiting") or {}
    if waiting.get("reason") not in (None, *USUAL_WAITING):
        return _explain_waiting_container(waiting)
    return causes.get(pod["metadata"]["name"], "")


def _explain_waiting_container(waiting: Manifest) -> str:
    """Say what a container waits for; between two tries to pull an image, why the last failed."""
    message = waiting.get("message") or ""
    _, failed, detail = message.partition(f"{NOT_PULLED}: ")
    if waiting["reason"] == BETWEEN_PULLS and failed:
        return f"{NOT_PULLED}: {detail}"
    return ": ".join(filter(None, (waiting["reason"], message)))


def without_pod_names(text: str, job: Manifest) -> str:
    """Return a text with the names of a Job's pods shortened to the Job's.

    Each pod is called otherwise, and what is wrong with them is the same.
    """
    name = re.escape(job["metadata"]["name"])
    return re.sub(rf"\b{name}-[a-z0-9]{{5}}\b", job["metadata"]["name"], text)


def judge_waiting(pod: Manifest, causes: Mapping[str, str]) -> Waiting | None:
    """Tell what a pod waits for; `causes` are the newest warnings by object."""
    event = causes.get(pod["metadata"]["name"], "").partition(":")[0]
    unscheduled = find_condition(pod, "PodScheduled", "False")
    return Waiting.NODE if unscheduled and event == NO_NODE else None


def explain_ending(job: Manifest, pod: Manifest | None) -> str:
    """Say why an agent has ended."""
    failed = find_condition(job, "Failed") or {}
    of_pod = explain_pod_end(pod) if pod is not None else ""
    if of_pod or not failed:
        return of_pod
    return ": ".join(filter(None, (failed.get("reason", ""), failed.get("message", ""))))


def explain_pod_end(pod: Manifest) -> str:
    """Say why a pod has ended: evicted, killed for its memory, or what its supervisor said last."""
    status = pod["status"]
    terminated = find_container_state(pod, "terminated") or {}
    # With exit code 0 it was a run that was killed: the supervisor saw to it.
    if terminated.get("reason") == "OOMKilled" and terminated.get("exitCode"):
        return f"OOMKilled: more memory than its limit{_memory_limit(pod)}"
    if said := SUPERVISOR_SAID.search(terminated.get("message") or ""):
        return said.group(1).strip()
    if status.get("reason"):
        return ": ".join(filter(None, (status["reason"], status.get("message", ""))))
    disrupted = find_condition(pod, "DisruptionTarget") or {}
    if disrupted:
        return ": ".join(filter(None, (disrupted.get("reason", ""), disrupted.get("message", ""))))
    if terminated.get("exitCode"):
        last = (terminated.get("message") or "").strip().splitlines()[-1:]
        return ": ".join([f"exit code {terminated['exitCode']}", *last])
    return ""


def newest_causes(events: list[dict[str, Any]]) -> dict[str, str]:
    """Return the newest warning about each object, by the object's name.

    That no node can be had says more than the scheduler's, which stands in the pod's condition.
    """

    def when(event: Manifest) -> tuple[bool, str, int]:
        # Of several within a second the longest says most.
        at = str(event.get("lastTimestamp") or event.get("eventTime") or "")
        return event.get("reason") == NO_NODE, at, len(event.get("message") or "")

    return {
        event["involvedObject"]["name"]: f"{event.get('reason', '')}: {event.get('message', '')}"
        for event in sorted(events, key=when)
    }


def _memory_limit(pod: Manifest) -> str:
    limits = [c.get("resources", {}).get("limits", {}) for c in pod["spec"]["containers"]]
    return next((f" of {one['memory']}" for one in limits if "memory" in one), "")
