"""Explains why an agent does not start; pure."""

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


def explain_waiting(job: Manifest, pod: Manifest | None, causes: Mapping[str, str]) -> str:
    """Say why an agent has not started, or not again; `causes` are newest warnings by object."""
    if find_condition(job, "Suspended"):
        return f"suspended: {(find_condition(job, 'Suspended') or {}).get('message', '')}"
    if pod is None or pod["status"].get("phase") in ("Succeeded", "Failed"):
        cause = causes.get(job["metadata"]["name"], "")
        return cause if pod is None else cause or "is started again"
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
