"""Nodes and pods as an API server returns them, as far as GPUs are concerned."""

from __future__ import annotations

from typing import Any

from deployer.executors.kubernetes.gpu_nodes import NodeGpus, summarise_nodes

READY = {"type": "Ready", "status": "True"}
GKE_LABELS = {
    "cloud.google.com/gke-accelerator": "nvidia-tesla-t4",
    "cloud.google.com/gke-os-distribution": "cos",
}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
INSTALLER = {"app.kubernetes.io/managed-by": "deployer"}
INSTALLER |= {"app.kubernetes.io/component": "nvidia-driver"}


def build_node(
    name: str,
    labels: dict[str, str],
    counts: dict[str, int] | None = None,
    allocatable: dict[str, int] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a node with these resources; all of them allocatable unless said otherwise."""
    capacity = {resource: str(count) for resource, count in (counts or {}).items()}
    usable = capacity if allocatable is None else {r: str(n) for r, n in allocatable.items()}
    status = {"capacity": capacity, "allocatable": usable, "conditions": [READY]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def build_pod(
    node: str = "",
    gpus: dict[str, int] | None = None,
    phase: str = "Running",
    labels: dict[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a pod on a node; `status` and fields of its spec may be given."""
    limits = {"cpu": "1", **{resource: str(count) for resource, count in (gpus or {}).items()}}
    status = {"phase": phase, **more.pop("status", {})}
    spec = {"containers": [{"name": "main", "resources": {"limits": limits}}], **more}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": "pod", "labels": labels or {}}, "spec": spec, "status": status}


def summarise_one(node: dict[str, Any], *pods: dict[str, Any]) -> NodeGpus:
    """Return what there is to say of one node."""
    [found] = summarise_nodes([node], pods)
    return found
