"""Why no node takes a pod, from the nodes: a sentence, an edit, whether it passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.errors import TRANSIENT, Finding
from deployer.executors.kubernetes.diagnose.facts import ClusterNodes
from deployer.executors.kubernetes.diagnose.placement import (
    explain_nodes,
    explain_sentence,
    find_nearest,
    shorten,
)
from deployer.executors.kubernetes.gpu_nodes import summarise_nodes
from tests.docs.pending_table import is_listed
from tests.executors.gpu_drivers.objects import (
    GKE_LABELS,
    INSTALLER,
    READY,
    TAINT,
    build_node,
    build_pod,
)

GPU = "nvidia.com/gpu"
SENTENCE = (
    "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. no new claims to deallocate, "
    "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
)
SLICE = "nvidia.com/mig-1g.5gb"
PRODUCT = "nvidia.com/gpu.product"
A100 = {PRODUCT: "A100"}
T4 = {PRODUCT: "T4"}
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
MANAGED = {**GKE_LABELS, "cloud.google.com/gke-gpu-driver-version": "latest"}
ON_PREM = {"nvidia.com/gpu.present": "true"}
OPERATOR = "nvidia.com/gpu.deploy.driver"
PLUGIN = {"app": "nvidia-device-plugin-daemonset"}
PLUGIN_FIX = "NVIDIA's GPU Operator, or deployer drivers install --device-plugin"


def node(
    name: str = "a", labels: dict[str, str] = A100, count: int = 2, **spec: Any
) -> dict[str, Any]:
    return build_node(name, labels, {GPU: count} if count else {}, **spec)


def wait_in(labels: dict[str, str], reason: str) -> dict[str, Any]:
    """Return a pod of node a whose first container waits for a reason, and whose second is well."""
    waiting = {"name": "first", "state": {"waiting": {"reason": reason, "message": "words"}}}
    well = {"name": "second", "state": {"waiting": {"reason": "PodInitializing"}}}
    status = {"initContainerStatuses": [waiting], "containerStatuses": [well]}
    return build_pod("a", phase="Pending", labels=labels, status=status)


TEAM = {"key": "team", "value": "a", "effect": "NoSchedule"}
CONTROL = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
ASKS = build_pod(gpus={GPU: 1}, phase="Pending")
RUNNING = {"conditions": [READY]}
YAML = "in deployer.yaml"
GAP = "node a has a GPU but reports none: "


def explain(
    nodes: list[dict[str, Any]], pods: list[dict[str, Any]], pod: dict[str, Any], **known: Any
) -> Finding | None:
    """Return what nodes on which these pods run say to one more."""
    return explain_nodes(ClusterNodes(tuple(nodes), summarise_nodes(nodes, pods), **known), pod)


@pytest.mark.parametrize(
    ("nodes", "pods", "pod", "cause", "line"),
    [
        (
            [node(), node("b", T4)],
            [],
            build_pod(gpus={GPU: 1}, nodeSelector={PRODUCT: "H100"}),
            Cause.SELECTOR,
            "no node has nvidia.com/gpu.product=H100; nearest: A100: "
            f"kubernetes: {{gpu: {{product: A100}}}} {YAML}",
        ),
        (
            [node()],
            [],
            build_pod(gpus={GPU: 1}, nodeSelector={"zone": "a"}),
            Cause.SELECTOR,
            "no node has zone=a: ask an administrator: kubectl get nodes --show-labels",
        ),
        (
            [node()],
            [],
            build_pod(nodeSelector={"nvidia.com/gpu-product": "A100"}),
            Cause.SELECTOR,
            f"no node has nvidia.com/gpu-product=A100; nearest: {PRODUCT}: "
            "ask an administrator: kubectl get nodes --show-labels",
        ),
        (
            [node("a", {**A100, "zone": "a"}), node("b", {**T4, "zone": "b"})],
            [],
            build_pod(gpus={GPU: 1}, nodeSelector={**A100, "zone": "b"}),
            Cause.SELECTOR,
            f"no node has {PRODUCT}=A100 and zone=b: "
            "ask an administrator: kubectl get nodes --show-labels",
        ),
        (
            [node(taints=[TAINT])],
            [],
            ASKS,
            Cause.TAINT,
            "taint nvidia.com/gpu=present:NoSchedule of node a is not tolerated: "
            f"kubernetes: {{tolerations: [{{key: {GPU}, operator: Exists}}]}} {YAML}",
        ),
        (  # the node of a CPU is of no use, whatever is tolerated
            [node("cpu", {}, 0, taints=[CONTROL]), node(taints=[TEAM])],
            [],
            ASKS,
            Cause.TAINT,
            "taint team=a:NoSchedule of node a is not tolerated: "
            f"kubernetes: {{tolerations: [{{key: team, operator: Exists}}]}} {YAML}",
        ),
        (
            [build_node("a", A100, {SLICE: 7})],
            [],
            ASKS,
            Cause.NO_SUCH_GPU,
            "no node has 1 nvidia.com/gpu; there is at most 7 nvidia.com/mig-1g.5gb on A100: "
            f"kubernetes: {{gpu: {{resource: {SLICE}}}}} {YAML}",
        ),
        (
            [node(), node("b", T4, 4)],
            [],
            build_pod(gpus={GPU: 8}),
            Cause.NO_SUCH_GPU,
            "no node has 8 nvidia.com/gpu; there is at most 4 nvidia.com/gpu on T4: "
            "ask an administrator for a node with 8 nvidia.com/gpu",
        ),
        (
            [node(), node("b", T4, 4)],
            [],
            build_pod(gpus={GPU: 4}, nodeSelector=A100),
            Cause.NO_SUCH_GPU,
            "no node with its labels has 4 nvidia.com/gpu; there is at most 4 nvidia.com/gpu on "
            "T4: ask an administrator for a node with 4 nvidia.com/gpu",
        ),
        (
            [node("cpu", {}, 0)],
            [],
            ASKS,
            Cause.NO_SUCH_GPU,
            "no node has 1 nvidia.com/gpu; there is none: "
            "ask an administrator for a node with 1 nvidia.com/gpu",
        ),
        (
            [node(labels=GKE_LABELS, count=0)],
            [],
            ASKS,
            Cause.DRIVER_MISSING,
            f"{GAP}it has no driver: deployer drivers install",
        ),
        (
            [node(labels=GKE_LABELS, count=0)],
            [build_pod("a", labels=INSTALLER, phase="Pending")],
            ASKS,
            Cause.DRIVER_MISSING,
            f"{GAP}its driver is being installed: deployer drivers status",
        ),
        (
            [node(labels=MANAGED, count=0)],
            [],
            ASKS,
            Cause.DRIVER_MISSING,
            f"{GAP}its driver is being installed: deployer drivers status",
        ),
        (
            [node(labels=ON_PREM, count=0)],
            [],
            ASKS,
            Cause.DRIVER_MISSING,
            f"{GAP}no device plugin runs there: {PLUGIN_FIX}",
        ),
        (
            [node(labels={**ON_PREM, OPERATOR: "pre-installed"}, count=0)],
            [],
            ASKS,
            Cause.DRIVER_MISSING,
            f"{GAP}no device plugin runs there: {PLUGIN_FIX}",
        ),
        (
            [node(labels={**ON_PREM, OPERATOR: "paused-for-driver-upgrade"}, count=0)],
            [],
            ASKS,
            Cause.DRIVER_MISSING,
            f"{GAP}its driver is being installed: deployer drivers status",
        ),
        (
            [node(labels=GKE_LABELS, count=0)],
            [build_pod("a", labels=INSTALLER, status=RUNNING)],
            ASKS,
            Cause.DRIVER_MISSING,
            f"{GAP}no device plugin runs there yet: deployer drivers status",
        ),
        (
            [node(labels=GKE_LABELS, count=0)],
            [wait_in(INSTALLER, "ImagePullBackOff")],
            ASKS,
            Cause.DRIVER_MISSING,
            f"{GAP}driver: pod pod: ImagePullBackOff: words: deployer drivers status",
        ),
        (
            [node(labels=ON_PREM, count=0)],
            [wait_in(PLUGIN, "CrashLoopBackOff")],
            ASKS,
            Cause.DRIVER_MISSING,
            f"{GAP}device plugin: pod pod: CrashLoopBackOff: words: deployer drivers status",
        ),
        (
            [node(labels=ON_PREM, count=0)],
            [wait_in(PLUGIN, "ContainerCreating")],
            ASKS,
            Cause.DRIVER_MISSING,
            f"{GAP}its device plugin has reported none yet: deployer drivers status",
        ),
    ],
)
def test_what_nodes_say(
    nodes: list[dict[str, Any]],
    pods: list[dict[str, Any]],
    pod: dict[str, Any],
    cause: Cause,
    line: str,
) -> None:
    """The doctor says it as it is; of a pod that waits, it follows the scheduler's sentence."""
    found = explain(nodes, pods, pod)
    assert found
    assert (found.code, found.transient, found.line) == (cause, None, line)
    assert is_listed(found)
    known = ClusterNodes(tuple(nodes), summarise_nodes(nodes, pods))
    said = explain_sentence(shorten(SENTENCE), pod, known)
    assert said
    assert said.line == f"{shorten(SENTENCE)}; {line}"
    assert is_listed(replace(said, message=found.message))


@pytest.mark.parametrize(
    ("nodes", "pod"),
    [
        ([], ASKS),
        ([node()], ASKS),
        ([node(), node("b", taints=[TEAM])], ASKS),
        ([node(taints=[TAINT])], build_pod(gpus={GPU: 1}, tolerations=[TOLERATION])),
        ([node(taints=[{**TEAM, "effect": "PreferNoSchedule"}])], ASKS),
        # These go by themselves: a node that is lost, and one that starts.
        ([node(taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}])], ASKS),
        ([node(taints=[{"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"}])], ASKS),
        ([build_node("a", {}, {"cpu": 2})], build_pod(phase="Pending")),
    ],
)
def test_where_a_node_may_have_room_nodes_say_nothing(
    nodes: list[dict[str, Any]], pod: dict[str, Any]
) -> None:
    assert explain(nodes, [], pod) is None


def test_what_pods_bring_is_not_judged_where_not_all_may_be_listed() -> None:
    found = explain([node(labels=ON_PREM, count=0)], [], ASKS, complete=False)
    assert found
    assert found.line == f"{GAP}no device plugin runs there yet: deployer drivers status"


def test_gpus_in_use_pass_where_nodes_are_known_to_have_them() -> None:
    known = ClusterNodes((node(),), summarise_nodes([node()], []))
    for nodes, passes in ((known, TRANSIENT), (None, None)):
        found = explain_sentence(shorten(SENTENCE), ASKS, nodes)
        assert found
        assert (found.code, found.transient) == (Cause.GPUS_BUSY, passes)
        assert found.message == "0/3 nodes are available: 3 Insufficient nvidia.com/gpu"
        assert is_listed(found)


@pytest.mark.parametrize(
    ("wanted", "nearest"),
    [
        ("A100", "NVIDIA-A100-SXM4-40GB"),
        ("a100", "NVIDIA-A100-SXM4-40GB"),
        ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-40GB"),
        ("T4", "Tesla-T4"),
        ("zzz", ""),
    ],
)
def test_the_nearest_label_is_found(wanted: str, nearest: str) -> None:
    assert find_nearest(wanted, ["Tesla-T4", "NVIDIA-A100-SXM4-40GB"]) == nearest
