"""What a node with a GPU lacks so that none is counted; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.gpu_drivers.nodes import (
    MANAGED_DRIVER_LABEL,
    OPERATOR_BRINGS,
    OPERATOR_DRIVER_LABEL,
    NodeGpus,
)
from deployer.findings import Finding
from deployer.kube.objects import find_condition, find_trouble


def find_gap(node: NodeGpus) -> Finding | None:
    """Return what a node lacks that counts no GPU; None if it counts one."""
    if node.allocatable:
        return None
    if troubles := "; ".join(_list_troubles(node)):
        return rules.DRIVER_TROUBLE.found(trouble=troubles, node=node.name)
    rule = _find_driver_rule(node)
    if rule is None and node.plugin is None:
        rule = rules.NO_PLUGIN if node.has_driver else rules.NO_PLUGIN_OR_DRIVER
        rule = rules.NO_GKE_PLUGIN if node.gke else rule
    found = (rule or rules.PLUGIN_STARTS).found(node=node.name)
    # A plugin is sent to nodes on which somebody brings the driver.
    waits = found.is_permanent and node.plugin is not None
    return replace(found, transient=None) if waits else found


def _find_driver_rule(node: NodeGpus) -> rules.Rule | None:
    """Return the rule for a driver that is missing or not there yet; None if it is unknown, too."""
    if node.installer is not None:
        return None if find_condition(node.installer, "Ready") else rules.DRIVER_COMES
    if MANAGED_DRIVER_LABEL in node.labels:
        return rules.GKE_DRIVER_COMES
    if node.labels.get(OPERATOR_DRIVER_LABEL, "").startswith(OPERATOR_BRINGS):
        return rules.DRIVER_COMES
    return rules.NO_DRIVER if node.gke and not node.has_driver else None


def _list_troubles(node: NodeGpus) -> Iterator[str]:
    for what, pod in (("driver", node.installer), ("device plugin", node.plugin)):
        if pod is None or find_condition(pod, "Ready"):
            continue
        if found := find_trouble(pod):
            waiting = found["state"].get("waiting", {})
            said = ": ".join(filter(None, (waiting.get("reason"), waiting.get("message"))))
            yield f"{what}: pod {pod['metadata']['name']}: {said}"
