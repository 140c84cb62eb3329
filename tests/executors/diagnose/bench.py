"""Facts about a pod that waits, and the reason found for them."""

from __future__ import annotations

from typing import Any

from deployer.errors import Finding
from deployer.executors.kubernetes.diagnose.facts import Event, PodFacts, Reference
from deployer.executors.kubernetes.diagnose.pending import explain
from deployer.kube.objects import SECRET
from tests.executors.test_objects import NAME, PENDING, build_object, condition, container

POD = f"{NAME}-x7k2p"
GPU = "nvidia.com/gpu"
FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
UNBOUND = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
NEEDED = Reference(SECRET, "token")
KEY = Reference(SECRET, "token", "t")
CONTAINER = {
    "name": "agent",
    "image": "ghcr.io/a/b:1",
    "env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}}],
    "resources": {"limits": {GPU: "1"}},
}
SCALER, KARPENTER = "cluster-autoscaler", "karpenter"


def say(reason: str, message: str, source: str = "kubelet", about: str = POD) -> Event:
    """Return an event about the pod."""
    return Event(about, reason, message, source, "2026-01-01T00:00:00Z")


def unscheduled(message: str) -> dict[str, Any]:
    """Return the status of a pod that no node takes."""
    return {
        **PENDING,
        **condition("PodScheduled", "False", reason="Unschedulable", message=message),
    }


def wait(reason: str, message: str = "") -> dict[str, Any]:
    """Return the status of a pod whose container waits."""
    return {**PENDING, **container(waiting={"reason": reason, "message": message})}


def find(
    status: dict[str, Any] | None,
    *events: Event,
    job: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    **known: Any,
) -> Finding | None:
    """Return why a pod of this status does not run."""
    pod = None
    if status is not None:
        pod = build_object("Pod", status, POD)
        node = {} if "conditions" in status else {"nodeName": "n1"}
        pod["spec"] = {"containers": [CONTAINER], **node, **(spec or {})}
    facts = {"age_seconds": 100.0, "events": events, **known}
    return explain(PodFacts(build_object("Job", job or {}), pod, "ns", **facts))
