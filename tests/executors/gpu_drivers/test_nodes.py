"""What a node's labels, resources and pods tell of its GPUs, and who brings its driver."""

from __future__ import annotations

import pytest

from deployer.executors.kubernetes.gpu_nodes import (
    GpuResource,
    summarise_nodes,
)
from tests.executors.gpu_drivers.objects import (
    GKE_LABELS,
    INSTALLER,
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
    [found] = summarise_nodes([build_node("cpu", {}), tpu, pci], [])
    assert (found.name, found.label) == ("pci", "feature.node.kubernetes.io/pci-10de.present=true")


OPERATOR = "nvidia.com/gpu.deploy.driver"
MANAGED = {**GKE_LABELS, "cloud.google.com/gke-gpu-driver-version": "latest"}
FULL_VERSION = {**GKE_LABELS, "nvidia.com/cuda.driver-version.full": "550.107.02"}
OLD_VERSION = {**GKE_LABELS, "nvidia.com/cuda.driver.major": "455"}
OF_GOOGLE = {"k8s-app": "nvidia-driver-installer"}
OF_OPERATOR = {"app": "nvidia-driver-daemonset"}
OF_OPERATORS_OWN_KIND = {"app.kubernetes.io/component": "nvidia-driver"}


@pytest.mark.parametrize(
    ("labels", "count", "of_pod", "has_driver"),
    [
        (GKE_LABELS, 0, None, False),
        (GKE_LABELS, 1, None, True),
        (MANAGED, 0, None, True),
        (FULL_VERSION, 0, None, True),
        (OLD_VERSION, 0, None, True),
        (GKE_LABELS, 0, INSTALLER, True),
        (GKE_LABELS, 0, OF_GOOGLE, True),
        (GKE_LABELS, 0, OF_OPERATOR, True),
        (GKE_LABELS, 0, OF_OPERATORS_OWN_KIND, True),
        ({**GKE_LABELS, OPERATOR: "true"}, 0, None, True),
        ({**GKE_LABELS, OPERATOR: "paused-for-driver-upgrade"}, 0, None, True),
        ({**GKE_LABELS, OPERATOR: "pre-installed"}, 0, None, True),
        ({**GKE_LABELS, OPERATOR: "false"}, 0, None, False),
    ],
)
def test_a_node_has_a_driver_whoever_installs_it(
    labels: dict[str, str], count: int, of_pod: dict[str, str] | None, has_driver: bool
) -> None:
    pods = [build_pod("n", phase="Pending", labels=of_pod)] if of_pod else []
    node = summarise_one(build_node("n", labels, {GPU: count} if count else {}), *pods)
    assert node.has_driver == has_driver


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
    assert summarise_one(node, build_pod("n", labels=labels)).plugin
    assert summarise_one(node, build_pod("other", labels=labels)).plugin is None
