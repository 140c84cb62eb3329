"""What a node with a GPU lacks so that none is counted; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.executors.kubernetes.gpu_drivers.nodes import NodeGpus

Manifest = Mapping[str, Any]
INSTALL = "deployer drivers install"


def find_gap(node: NodeGpus) -> tuple[str, str]:
    """Return what a node lacks that counts no GPU, and what brings it; empty if it counts one."""
    if node.allocatable:
        return "", ""
    on = f"on node {node.name}"
    if node.reason:
        return f"{node.reason} {on}", ""
    if node.driver == "installing":
        return f"the driver is being installed {on}", ""
    if node.driver == "missing":
        return f"the driver is missing {on}", INSTALL
    if node.driver == "managed":
        return f"GKE is installing the driver {on}", ""
    if node.plugin == "missing" and node.gke:
        return f"GKE's device plugin has not come yet {on}", ""
    if node.plugin == "missing":
        said = ", and whether there is a driver cannot be told" if node.driver == "unknown" else ""
        remedy = f"NVIDIA's GPU Operator, or {INSTALL} --device-plugin"
        return f"the device plugin is missing {on}{said}", remedy
    return f"the device plugin has counted no GPU yet {on}", ""


def describe_gap(node: NodeGpus) -> str:
    """Return the same in one line."""
    return ": ".join(filter(None, find_gap(node)))
