"""What a node's labels, resources and pods tell of its GPUs, its driver and its plugin."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.executors.kubernetes.gpu_drivers.nodes import (
    GpuResource,
    summarise_nodes,
    summarise_own_pods,
)
from tests.executors.gpu_drivers.objects import (
    GKE_LABELS,
    INSTALLER,
    READY,
    build_node,
    build_pod,
    summarise_one,
)

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
A100 = "NVIDIA-A100-SXM4-40GB"
PARTITION = {**GKE_LABELS, "cloud.google.com/gke-gpu-partition-size": "1g.5gb"}
TIME_SHARED = {**GKE_LABELS, "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"}
MPS = {PRODUCT: f"{A100}-SHARED", "nvidia.com/gpu.sharing-strategy": "mps"}


@pytest.mark.parametrize(
    ("labels", "resource", "kind"),
    [
        ({PRODUCT: A100}, GPU, "whole GPU"),
        ({PRODUCT: A100, "nvidia.com/gpu.sharing-strategy": "none"}, GPU, "whole GPU"),
        ({PRODUCT: f"{A100}-MIG-1g.5gb"}, GPU, "MIG slice 1g.5gb"),
        ({PRODUCT: A100}, "nvidia.com/mig-3g.20gb", "MIG slice 3g.20gb"),
        (PARTITION, GPU, "MIG slice 1g.5gb"),
        ({PRODUCT: f"{A100}-SHARED"}, GPU, "shared GPU"),
        ({PRODUCT: A100}, "nvidia.com/gpu.shared", "shared GPU"),
        (MPS, GPU, "shared GPU (mps)"),
        (TIME_SHARED, GPU, "shared GPU (time-sharing)"),
        ({PRODUCT: f"{A100}-MIG-1g.5gb-SHARED"}, GPU, "shared MIG slice 1g.5gb"),
    ],
)
def test_what_one_of_a_resource_is(labels: dict[str, str], resource: str, kind: str) -> None:
    node = summarise_one(build_node("n", labels, {resource: 7}))
    assert node.resources == (GpuResource(resource, 7, 7, 0, kind),)


def test_living_pods_of_all_namespaces_are_in_use() -> None:
    init = {"initContainers": [{"name": "i", "resources": {"limits": {GPU: "3"}}}]}
    pods = [
        build_pod("n", {GPU: 2}),
        build_pod("n", {GPU: 1}, "Pending", **init),
        build_pod("n", {GPU: 1}, "Succeeded"),
        build_pod("other", {GPU: 1}),
        build_pod("", {GPU: 1}, "Pending"),
    ]
    [resource] = summarise_one(build_node("n", {PRODUCT: A100}, {GPU: 8}), *pods).resources
    assert (resource.in_use, resource.free) == (5, 3)


def test_only_what_a_strategy_counts_is_shown() -> None:
    mixed = {GPU: 0, "nvidia.com/mig-1g.5gb": 4, "nvidia.com/mig-2g.10gb": 1}
    node = summarise_one(build_node("n", {PRODUCT: A100}, mixed))
    assert [r.name for r in node.resources] == ["nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb"]


def test_nodes_without_gpus_and_with_tpus_are_left_out() -> None:
    tpu = build_node(
        "tpu", {"cloud.google.com/gke-tpu-accelerator": "tpu-v5"}, {"google.com/tpu": 4}
    )
    pci = build_node("pci", {"feature.node.kubernetes.io/pci-10de.present": "true"})
    assert [n.name for n in summarise_nodes([build_node("cpu", {}), tpu, pci], [])] == ["pci"]


def waiting(reason: str, where: str = "initContainerStatuses") -> dict[str, Any]:
    return {where: [{"name": "install", "state": {"waiting": {"reason": reason, "message": "m"}}}]}


RUNNING = {"conditions": [READY]}
OPERATOR = "nvidia.com/gpu.deploy.driver"
MANAGED = {**GKE_LABELS, "cloud.google.com/gke-gpu-driver-version": "latest"}
FULL_VERSION = {PRODUCT: A100, "nvidia.com/cuda.driver-version.full": "550.107.02"}
OLD_VERSION = {PRODUCT: A100, "nvidia.com/cuda.driver.major": "455"}
OLD_VERSION |= {"nvidia.com/cuda.driver.minor": "06", "nvidia.com/cuda.driver.rev": ""}


@pytest.mark.parametrize(
    ("labels", "count", "pod_status", "driver", "version"),
    [
        (MANAGED, 0, None, "managed", "latest"),
        (GKE_LABELS, 0, None, "missing", ""),
        (GKE_LABELS, 0, {"phase": "Pending"}, "installing", ""),
        (GKE_LABELS, 0, {"phase": "Pending", **waiting("PodInitializing")}, "installing", ""),
        (GKE_LABELS, 0, {"phase": "Pending", **waiting("ErrImageNeverPull")}, "failing", ""),
        (GKE_LABELS, 0, RUNNING, "installed", ""),
        (FULL_VERSION, 1, None, "installed", "550.107.02"),
        (OLD_VERSION, 1, None, "installed", "455.06"),
        ({PRODUCT: A100}, 1, None, "installed", ""),
        ({"nvidia.com/gpu.present": "true"}, 0, None, "unknown", ""),
        ({**GKE_LABELS, OPERATOR: "true"}, 0, None, "installing", ""),
        ({PRODUCT: A100, OPERATOR: "paused-for-driver-upgrade"}, 0, None, "installing", ""),
        ({PRODUCT: A100, OPERATOR: "pre-installed"}, 0, None, "installed", ""),
        ({**GKE_LABELS, OPERATOR: "false"}, 0, None, "missing", ""),
    ],
)
def test_driver(
    labels: dict[str, str],
    count: int,
    pod_status: dict[str, Any] | None,
    driver: str,
    version: str,
) -> None:
    pods = [] if pod_status is None else [build_pod("n", labels=INSTALLER, status=pod_status)]
    node = summarise_one(build_node("n", labels, {GPU: count} if count else {}), *pods)
    assert (node.driver, node.driver_version) == (driver, version)


def test_a_driver_of_the_operators_own_kind_is_known() -> None:
    """Its NVIDIADriver resources make DaemonSets of any name, with this label."""
    pod = build_pod(
        "n", labels={"app.kubernetes.io/component": "nvidia-driver"}, status={"phase": "Pending"}
    )
    assert summarise_one(build_node("n", GKE_LABELS), pod).driver == "installing"


def test_a_failing_installer_says_why() -> None:
    status = waiting("ImagePullBackOff")
    status["containerStatuses"] = waiting("PodInitializing")["initContainerStatuses"]
    pod = build_pod("n", phase="Pending", labels=INSTALLER, status=status)
    node = summarise_one(build_node("n", GKE_LABELS), pod)
    assert node.reason == "driver: pod pod: ImagePullBackOff: m"


@pytest.mark.parametrize(
    "labels",
    [
        {"k8s-app": "nvidia-gpu-device-plugin"},
        {"app": "nvidia-device-plugin-daemonset"},
        {"name": "nvidia-device-plugin-ds"},
        {"app.kubernetes.io/name": "nvidia-device-plugin"},
    ],
)
def test_device_plugins_are_known_by_their_labels(labels: dict[str, str]) -> None:
    node = build_node("n", GKE_LABELS)
    assert summarise_one(node, build_pod("n", labels=labels, status=RUNNING)).plugin == "running"
    creating = {"phase": "Pending", **waiting("ContainerCreating", "containerStatuses")}
    assert summarise_one(node, build_pod("n", labels=labels, status=creating)).plugin == "starting"
    crashing = waiting("CrashLoopBackOff", "containerStatuses")
    assert summarise_one(node, build_pod("n", labels=labels, status=crashing)).plugin == "failing"
    assert summarise_one(node).plugin == "missing"
    assert summarise_one(build_node("n", GKE_LABELS, {GPU: 1})).plugin == "registered"


def test_own_pods_tell_a_tenant_what_is_in_use() -> None:
    pods = [build_pod("b", {GPU: 2}), build_pod("b", {GPU: 1}), build_pod("a"), build_pod("")]
    [node] = summarise_own_pods(pods)
    assert (node.name, node.driver, node.plugin) == ("b", "unknown", "unknown")
    assert node.resources == (GpuResource(GPU, None, None, 3, ""),)
