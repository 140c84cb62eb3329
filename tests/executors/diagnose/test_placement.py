"""Why no node takes a pod, from the nodes: a sentence, an edit, whether it passes."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.executors.kubernetes.diagnose.facts import Nodes
from deployer.executors.kubernetes.diagnose.placement import (
    explain_placement,
    find_nearest,
    find_untolerated,
)
from deployer.executors.kubernetes.diagnose.view import count_held
from deployer.executors.kubernetes.gpu_drivers.nodes import summarise_nodes
from deployer.findings import Finding
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


def require(
    key: str, operator: str, *values: str, part: str = "matchExpressions"
) -> dict[str, Any]:
    term = {part: [{"key": key, "operator": operator, "values": list(values)}]}
    required = {"nodeSelectorTerms": [term]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


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


def hold(node: str, owner: str, **requests: str) -> dict[str, Any]:
    pod = build_cpu_pod(**requests)
    own = {"name": "x", "ownerReferences": [{"kind": owner}]}
    return {**pod, "metadata": own, "spec": {**pod["spec"], "nodeName": node}, "status": {}}


def build_cpu_pod(**limits: str) -> dict[str, Any]:
    pod = build_pod(phase="Pending")
    pod["spec"]["containers"][0]["resources"]["limits"] = limits
    return pod


TEAM = {"key": "team", "value": "a", "effect": "NoSchedule"}
CONTROL = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
FULL = build_pod("a", {GPU: 2})
ASKS = build_pod(gpus={GPU: 1}, phase="Pending")
RUNNING = {"conditions": [READY]}
PRESSED = {"conditions": [READY, {"type": "DiskPressure", "status": "True"}]}
YAML = "in deployer.yaml"


def explain(
    nodes: list[dict[str, Any]], pods: list[dict[str, Any]], pod: dict[str, Any]
) -> Finding | None:
    """Return why nodes on which these pods run do not take one more."""
    found = Nodes(tuple(nodes), summarise_nodes(nodes, pods), held=count_held(pods))
    return explain_placement(found, pod)


@pytest.mark.parametrize(
    ("nodes", "pods", "pod", "cause", "line"),
    [
        (
            [],
            [],
            ASKS,
            Cause.NO_SUCH_RESOURCE,
            "no node with a GPU exists now (never passes): "
            f"kubernetes: {{gpu: 0}} {YAML}, where a CPU will do",
        ),
        (
            [node()],
            [FULL],
            ASKS,
            Cause.GPUS_BUSY,
            "all 2 nvidia.com/gpu on node a are in use (passes with time)",
        ),
        (
            [node(), node("b")],
            [FULL, build_pod("b", {GPU: 2})],
            ASKS,
            Cause.GPUS_BUSY,
            "all 4 nvidia.com/gpu on 2 nodes are in use (passes with time)",
        ),
        (
            [node(), node("b", T4)],
            [],
            build_pod(gpus={GPU: 1}, nodeSelector={PRODUCT: "H100"}),
            Cause.SELECTOR,
            "no node with a GPU has nvidia.com/gpu.product=H100; nearest: A100 (never passes): "
            f"kubernetes: {{gpu: {{product: A100}}}} {YAML}",
        ),
        (
            [node()],
            [],
            build_pod(gpus={GPU: 1}, nodeSelector={"zone": "a"}),
            Cause.SELECTOR,
            f"no node with a GPU has a label zone (never passes): leave it out {YAML}",
        ),
        (
            [node(), node("b", T4)],
            [FULL],
            build_pod(gpus={GPU: 1}, nodeSelector=A100),
            Cause.GPUS_BUSY,
            "all 2 nvidia.com/gpu on node a are in use (passes with time)",
        ),
        (
            [node()],
            [],
            build_pod(gpus={GPU: 1}, **require("metadata.name", "NotIn", "a", part="matchFields")),
            Cause.SELECTOR,
            "no node with a GPU is allowed by the pod's node selector and affinity "
            "(never passes): ask an administrator: kubectl get nodes --show-labels",
        ),
        (
            [node(), node("b", T4)],
            [FULL],
            build_pod(gpus={GPU: 1}, **require(PRODUCT, "In", "A100")),
            Cause.GPUS_BUSY,
            "all 2 nvidia.com/gpu on node a are in use (passes with time)",
        ),
        (
            [node(taints=[TAINT])],
            [],
            ASKS,
            Cause.TAINT,
            "taint nvidia.com/gpu=present:NoSchedule of node a is not tolerated (never passes): "
            f"kubernetes: {{tolerations: [{{key: {GPU}, operator: Exists}}]}} {YAML}",
        ),
        (
            [node(taints=[{"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"}])],
            [],
            ASKS,
            Cause.TAINT,
            "taint node.cilium.io/agent-not-ready:NoExecute of node a is not tolerated "
            "(passes with time)",
        ),
        (
            [node(taints=[TAINT])],
            [FULL],
            build_pod(gpus={GPU: 1}, tolerations=[TOLERATION]),
            Cause.GPUS_BUSY,
            "all 2 nvidia.com/gpu on node a are in use (passes with time)",
        ),
        (
            [node(unschedulable=True)],
            [],
            ASKS,
            Cause.NODES_CLOSED,
            "node a is cordoned: ask an administrator: kubectl uncordon a",
        ),
        (
            [{**node(), "status": {**node()["status"], **PRESSED}}],
            [],
            ASKS,
            Cause.NODE_PRESSURE,
            "node a is short of disk (passes with time): "
            "ask an administrator: kubectl describe node a",
        ),
        (
            [{**node(), "status": {**node()["status"], "conditions": []}}],
            [],
            ASKS,
            Cause.NODE_LOST,
            "node a is not ready: ask an administrator: kubectl describe node a",
        ),
        (
            [],
            [],
            build_cpu_pod(cpu="1"),
            Cause.NO_SUCH_RESOURCE,
            "no node exists now (never passes): ask an administrator for nodes",
        ),
        (
            [build_node("a", {}, {"cpu": 2})],
            [],
            build_cpu_pod(**{"example.com/fpga": "1"}),
            Cause.NO_SUCH_RESOURCE,
            "no node has example.com/fpga (never passes): "
            "ask an administrator for nodes with example.com/fpga",
        ),
        (
            [build_node("a", A100, {SLICE: 7})],
            [],
            ASKS,
            Cause.NO_SUCH_RESOURCE,
            "no node has nvidia.com/gpu; there is nvidia.com/mig-1g.5gb (never passes): "
            f"kubernetes: {{gpu: {{resource: {SLICE}}}}} {YAML}",
        ),
        (
            [node()],
            [],
            build_pod(gpus={GPU: 4}),
            Cause.NO_SUCH_RESOURCE,
            "it asks for 4 nvidia.com/gpu, and no node has more than 2 (never passes): "
            f"kubernetes: {{gpu: 2}} {YAML}",
        ),
        (
            [node()],
            [build_pod("a", {GPU: 1})],
            build_pod(gpus={GPU: 2}),
            Cause.GPUS_BUSY,
            "it asks for 2 nvidia.com/gpu, and no node has more than 1 free (passes with time)",
        ),
        (
            [node(labels=GKE_LABELS, count=0)],
            [],
            ASKS,
            Cause.DRIVER_MISSING,
            "the driver is missing on node a (never passes): deployer drivers install",
        ),
        (
            [node(labels=GKE_LABELS, count=0)],
            [build_pod("a", labels=INSTALLER, phase="Pending")],
            ASKS,
            Cause.DRIVER_MISSING,
            "the driver is being installed on node a (passes with time)",
        ),
        (
            [node(labels=MANAGED, count=0)],
            [],
            ASKS,
            Cause.DRIVER_MISSING,
            "GKE is installing the driver on node a (passes with time)",
        ),
        (
            [node(labels=ON_PREM, count=0)],
            [],
            ASKS,
            Cause.DRIVER_MISSING,
            "the device plugin is missing on node a, and whether there is a driver cannot be told: "
            f"{PLUGIN_FIX}",
        ),
        (
            [node(labels={**ON_PREM, OPERATOR: "pre-installed"}, count=0)],
            [],
            ASKS,
            Cause.DRIVER_MISSING,
            f"the device plugin is missing on node a: {PLUGIN_FIX}",
        ),
        (
            [node(labels={**ON_PREM, OPERATOR: "paused-for-driver-upgrade"}, count=0)],
            [],
            ASKS,
            Cause.DRIVER_MISSING,
            "the driver is being installed on node a (passes with time)",
        ),
        (
            [node(labels=GKE_LABELS, count=0)],
            [wait_in(INSTALLER, "PodInitializing")],
            ASKS,
            Cause.DRIVER_MISSING,
            "the driver is being installed on node a (passes with time)",
        ),
        (
            [node(labels=GKE_LABELS, count=0)],
            [build_pod("a", labels=INSTALLER, status=RUNNING)],
            ASKS,
            Cause.DRIVER_MISSING,
            "GKE's device plugin has not come yet on node a",
        ),
        (
            [node(labels=GKE_LABELS, count=0)],
            [wait_in(INSTALLER, "ImagePullBackOff")],
            ASKS,
            Cause.DRIVER_MISSING,
            "driver: pod pod: ImagePullBackOff: words on node a",
        ),
        (
            [node(labels=ON_PREM, count=0)],
            [wait_in(PLUGIN, "CrashLoopBackOff")],
            ASKS,
            Cause.DRIVER_MISSING,
            "device plugin: pod pod: CrashLoopBackOff: words on node a",
        ),
        (
            [node(labels=ON_PREM, count=0)],
            [wait_in(PLUGIN, "ContainerCreating")],
            ASKS,
            Cause.DRIVER_MISSING,
            "the device plugin has counted no GPU yet on node a (passes with time)",
        ),
        (
            [node(labels=GKE_LABELS, count=0)],
            [wait_in(PLUGIN, "ContainerCreating")],
            ASKS,
            Cause.DRIVER_MISSING,
            "the driver is missing on node a: deployer drivers install",
        ),
        (
            [build_node("a", {}, {"cpu": 2, "memory": 8 << 30})],
            [],
            build_cpu_pod(cpu="64"),
            Cause.NO_SUCH_RESOURCE,
            "it asks for 64 cpu, and no node has more than 2 (never passes): "
            f"kubernetes: {{cpu: 2}} {YAML}",
        ),
        (
            [build_node("a", {}, {"cpu": 4, "memory": 8 << 30})],
            [hold("a", "DaemonSet", cpu="250m"), hold("a", "Job", cpu="3")],
            build_cpu_pod(cpu="64"),
            Cause.NO_SUCH_RESOURCE,
            "it asks for 64 cpu, and no node has more than 4 (never passes): "
            f"kubernetes: {{cpu: 3700m}} {YAML}",
        ),
        (
            [build_node("a", {}, {"cpu": 2, "memory": 8 << 30})],
            [],
            build_cpu_pod(cpu="1", memory="16Gi"),
            Cause.NO_SUCH_RESOURCE,
            "it asks for 16Gi memory, and no node has more than 8Gi (never passes): "
            f"kubernetes: {{memory: 8Gi}} {YAML}",
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
    found = explain(nodes, pods, pod)
    assert found
    assert (found.code, found.line) == (cause, line)
    assert is_listed(found)
    assert found.fix or not found.is_permanent
    # A tenant's Role gives no right to any of what kubectl does with nodes.
    assert found.fix.startswith("ask an administrator: kubectl") or "kubectl" not in line


@pytest.mark.parametrize("asked", [f"{GPU}s", SLICE])
def test_a_resource_that_nodes_name_otherwise_is_misnamed_whatever_their_taints(asked: str) -> None:
    nodes = [node("cpu", A100, 0), node("a", taints=[TAINT])]
    found = explain(nodes, [], build_pod(gpus={asked: 1}))
    assert found
    assert found.line == (
        f"no node has {asked}; there is {GPU} (never passes): "
        f"kubernetes: {{gpu: {{resource: {GPU}}}}} {YAML}"
    )


@pytest.mark.parametrize(
    ("nodes", "pod", "taint"),
    [
        ([node(taints=[TEAM])], ASKS, "team=a"),
        ([node(taints=[{"key": "spot", "effect": "NoExecute"}])], ASKS, "spot"),
        # The pod cannot go to these whatever it tolerates: to a CPU's node, to another label's.
        ([node("cpu", {}, 0, taints=[CONTROL]), node(taints=[TEAM])], ASKS, "team=a"),
        ([node("b", T4, taints=[CONTROL])], build_pod(gpus={GPU: 1}, nodeSelector=A100), ""),
        (
            [node(taints=[TAINT, TEAM])],
            build_pod(gpus={GPU: 1}, tolerations=[TOLERATION]),
            "team=a",
        ),
        ([node(taints=[{**TEAM, "effect": "PreferNoSchedule"}])], ASKS, ""),
        # A node that is lost is better told by its condition.
        (
            [node(taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}])],
            ASKS,
            "",
        ),
        ([node()], ASKS, ""),
    ],
)
def test_the_taint_is_that_of_a_node_that_the_pod_asks_for(
    nodes: list[dict[str, Any]], pod: dict[str, Any], taint: str
) -> None:
    assert find_untolerated(Nodes(tuple(nodes), summarise_nodes(nodes, [])), pod) == taint


@pytest.mark.parametrize("step", [1, -1])
def test_a_node_that_will_be_ready_soon_is_waited_for_beside_others(step: int) -> None:
    startup = {"key": "node.cilium.io/agent-not-ready", "effect": "NoSchedule"}
    nodes = [node("a", taints=[TEAM]), node("b", taints=[startup])][::step]
    found = explain(nodes, [], ASKS)
    assert found
    assert "passes with time" in found.line


def test_a_driver_whose_pod_fails_is_what_is_said_and_no_remedy() -> None:
    waiting = {"reason": "ErrImagePull", "message": "no such host"}
    status = {"containerStatuses": [{"name": "main", "state": {"waiting": waiting}}]}
    installer = build_pod("a", labels=INSTALLER, phase="Pending", status=status)
    found = explain([node(labels=GKE_LABELS, count=0)], [installer], ASKS)
    assert found
    said = "driver: pod pod: ErrImagePull: no such host on node a"
    assert (found.code, found.message, found.fix) == (Cause.DRIVER_MISSING, said, "")
    assert is_listed(found)


def test_where_the_nodes_have_room_they_say_nothing() -> None:
    assert explain([node()], [], ASKS) is None
    assert explain([build_node("a", {}, {"cpu": 2})], [], build_cpu_pod(cpu="2")) is None


def test_a_gpu_that_is_in_use_is_not_missing() -> None:
    nodes = [node(), node("b", T4, count=4)]
    found = explain(nodes, [FULL], build_pod(gpus={GPU: 2}, nodeSelector=A100))
    assert found
    assert found.code is Cause.GPUS_BUSY
    found = explain(nodes, [FULL], build_pod(gpus={GPU: 4}, nodeSelector=A100))
    assert found
    assert found.code is Cause.NO_SUCH_RESOURCE


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
