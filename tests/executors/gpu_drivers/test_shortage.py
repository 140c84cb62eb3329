"""Why a pending pod gets no GPU, in one line."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.executors.kubernetes.gpu_drivers.nodes import summarise_nodes
from deployer.executors.kubernetes.gpu_drivers.shortage import explain_no_gpu
from tests.executors.gpu_drivers.objects import GKE_LABELS, INSTALLER, TAINT, build_node, build_pod

GPU = "nvidia.com/gpu"
SLICE = "nvidia.com/mig-1g.5gb"
PRODUCT = "nvidia.com/gpu.product"
A100 = {PRODUCT: "A100"}
T4 = {PRODUCT: "T4"}
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
MANAGED = {**GKE_LABELS, "cloud.google.com/gke-gpu-driver-version": "latest"}
ON_PREM = {"nvidia.com/gpu.present": "true"}


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


FULL = build_pod("a", {GPU: 2})
ASKS = build_pod(gpus={GPU: 1}, phase="Pending")


@pytest.mark.parametrize(
    ("nodes", "pods", "pod", "said"),
    [
        ([node()], [], build_pod(), ""),
        ([node()], [], ASKS, ""),  # something else is missing: the scheduler says what
        ([], [], ASKS, "no node has a GPU now"),
        ([node()], [FULL], ASKS, "all 2 nvidia.com/gpu on node a are in use"),
        (
            [node(), node("b")],
            [FULL, build_pod("b", {GPU: 2})],
            ASKS,
            "all 4 nvidia.com/gpu on 2 nodes are in use",
        ),
        (
            [node(), node("b", T4)],
            [],
            build_pod(gpus={GPU: 1}, nodeSelector={PRODUCT: "H100"}),
            "no node with a GPU has nvidia.com/gpu.product=H100; there is A100, T4",
        ),
        (
            [node(), node("b", T4)],
            [FULL],
            build_pod(gpus={GPU: 1}, nodeSelector=A100),
            "all 2 nvidia.com/gpu on node a are in use",
        ),
        (
            [node()],
            [],
            build_pod(gpus={GPU: 1}, **require("metadata.name", "NotIn", "a", part="matchFields")),
            "no node with a GPU is allowed by the pod's node selector and affinity",
        ),
        (
            [node(), node("b", T4)],
            [FULL],
            build_pod(gpus={GPU: 1}, **require(PRODUCT, "In", "A100")),
            "all 2 nvidia.com/gpu on node a are in use",
        ),
        (
            [node(taints=[TAINT])],
            [],
            ASKS,
            "taint nvidia.com/gpu=present:NoSchedule of node a is not tolerated",
        ),
        (
            [node(taints=[TAINT])],
            [FULL],
            build_pod(gpus={GPU: 1}, tolerations=[TOLERATION]),
            "all 2 nvidia.com/gpu on node a are in use",
        ),
        ([node(unschedulable=True)], [], ASKS, "node a is cordoned"),
        (
            [build_node("a", A100, {SLICE: 7})],
            [],
            ASKS,
            "no node has nvidia.com/gpu; there is nvidia.com/mig-1g.5gb",
        ),
        (
            [node()],
            [],
            build_pod(gpus={GPU: 4}),
            "it asks for 4 nvidia.com/gpu, and no node has more than 2",
        ),
        (
            [node()],
            [build_pod("a", {GPU: 1})],
            build_pod(gpus={GPU: 2}),
            "it asks for 2 nvidia.com/gpu, and no node has more than 1 free",
        ),
        (
            [node(labels=GKE_LABELS, count=0)],
            [],
            ASKS,
            "the driver is missing on node a: deployer drivers install",
        ),
        (
            [node(labels=GKE_LABELS, count=0)],
            [build_pod("a", labels=INSTALLER, phase="Pending")],
            ASKS,
            "the driver is being installed on node a",
        ),
        ([node(labels=MANAGED, count=0)], [], ASKS, "GKE is installing the driver on node a"),
        (
            [node(labels=ON_PREM, count=0)],
            [],
            ASKS,
            "the device plugin is missing on node a, and whether there is a driver cannot be told: "
            "NVIDIA's GPU Operator, or deployer drivers install --device-plugin",
        ),
    ],
)
def test_reasons(
    nodes: list[dict[str, Any]], pods: list[dict[str, Any]], pod: dict[str, Any], said: str
) -> None:
    assert explain_no_gpu(summarise_nodes(nodes, pods), pod) == said
