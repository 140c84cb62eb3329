"""What a node with a GPU lacks so that none is counted; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.gpu_drivers.labels import is_gpu_resource
from deployer.executors.kubernetes.gpu_drivers.nodes import NodeGpus
from deployer.findings import Finding


def find_gap(node: NodeGpus) -> Finding | None:
    """Return what a node lacks that counts no GPU; None if it counts one."""
    if node.allocatable:
        return None
    if node.reason:
        return rules.DRIVER_TROUBLE.found(trouble=node.reason, node=node.name)
    rule = {
        "installing": rules.DRIVER_COMES,
        "missing": rules.NO_DRIVER,
        "managed": rules.GKE_DRIVER_COMES,
    }.get(node.driver)
    if rule is None and node.plugin == "missing":
        rule = rules.NO_PLUGIN if node.driver != "unknown" else rules.NO_PLUGIN_OR_DRIVER
        rule = rules.NO_GKE_PLUGIN if node.gke else rule
    found = (rule or rules.PLUGIN_STARTS).found(node=node.name)
    # A plugin is sent to nodes on which somebody brings the driver.
    waits = found.is_permanent and node.plugin != "missing"
    return replace(found, transient=None) if waits else found


def describe_served(resource: str, device_class: str) -> str:
    """Say that a resource comes by Dynamic Resource Allocation."""
    return f"{resource} comes by DRA (DeviceClass {device_class}): nodes do not count it"


def describe_dra(served: Mapping[str, str] | None) -> str:
    """Say the same of the GPUs that a cluster serves so; empty if it serves none."""
    found = ((name, by) for name, by in (served or {}).items() if is_gpu_resource(name))
    return "; ".join(describe_served(name, by) for name, by in sorted(found))


def describe_gap(node: NodeGpus) -> str:
    """Return the same in one line, with the fix."""
    found = find_gap(node)
    return ": ".join(filter(None, (found.message, found.fix))) if found else ""
