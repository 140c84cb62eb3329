"""What a node with a GPU lacks so that none is counted; pure."""

from __future__ import annotations

from dataclasses import replace

from deployer.executors.kubernetes.diagnose import rules
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


def describe_gap(node: NodeGpus) -> str:
    """Return the same in one line, with the fix."""
    found = find_gap(node)
    return ": ".join(filter(None, (found.message, found.fix))) if found else ""
