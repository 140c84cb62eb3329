"""Labels and resources that describe GPUs of nodes and pods, each with its source."""

from __future__ import annotations

from collections.abc import Mapping

from deployer.config.sections.kubernetes_parts import GPU_PRODUCT_LABEL
from deployer.kube.names import COMPONENT_LABEL, MANAGED_BY

# GKE's labels (cluster-autoscaler, cloudprovider/gke/labels; cloud.google.com/kubernetes-engine).
ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"
MANAGED_DRIVER_LABEL = "cloud.google.com/gke-gpu-driver-version"
DISTRIBUTION_LABEL = "cloud.google.com/gke-os-distribution"
PARTITION_LABEL = "cloud.google.com/gke-gpu-partition-size"
GKE_SHARING_LABEL = "cloud.google.com/gke-gpu-sharing-strategy"

# NVIDIA's labels (k8s-device-plugin, docs/gpu-feature-discovery/README.md).
GPU_PRESENT_LABEL = "nvidia.com/gpu.present"
SHARING_LABEL = "nvidia.com/gpu.sharing-strategy"
DRIVER_VERSION_LABEL = "nvidia.com/cuda.driver-version.full"
OLD_DRIVER_LABELS = tuple(f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev"))
SHARED_SUFFIX = "-SHARED"
MIG_INFIX = "-MIG-"

# Node Feature Discovery: a PCI device of NVIDIA's, 10de, with or without the class of device.
PCI_LABELS = tuple(
    f"feature.node.kubernetes.io/pci-{device}.present"
    for device in ("10de", "0300_10de", "0302_10de")
)

# Who else says that a node has a GPU: AKS (learn.microsoft.com/azure/aks/use-nvidia-gpu), Karpenter
# on EKS (karpenter-provider-aws, pkg/apis/v1/labels.go) and EKS Auto Mode; of NVIDIA's where the
# value is this.
CLOUD_LABELS = (
    "kubernetes.azure.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-manufacturer",
    "eks.amazonaws.com/instance-gpu-manufacturer",
)
NVIDIA = "nvidia"

# Dynamic Resource Allocation: what a DeviceClass is asked for by, if it says no other name
# (k8s.io/api/resource/v1, ResourceDeviceClassPrefix).
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"

GPU = "nvidia.com/gpu"
SHARED_GPU = "nvidia.com/gpu.shared"
MIG_PREFIX = "nvidia.com/mig-"

DRIVER_COMPONENT = "nvidia-driver"
PLUGIN_COMPONENT = "nvidia-device-plugin"

# Pods that install a driver: ours, Google's DaemonSet applied by hand, NVIDIA's GPU Operator.
INSTALLER_PODS: tuple[Mapping[str, str], ...] = (
    {**MANAGED_BY, COMPONENT_LABEL: DRIVER_COMPONENT},
    {"k8s-app": "nvidia-driver-installer"},
    {"app": "nvidia-driver-daemonset"},
    {"app.kubernetes.io/component": "nvidia-driver"},
)
# By these labels the GPU Operator says what it brings to a node: true, or paused-for-… while it
# upgrades, or pre-installed where it found a driver (gpu-operator, controllers/state_manager.go).
OPERATOR_DRIVER_LABEL = "nvidia.com/gpu.deploy.driver"
OPERATOR_PLUGIN_LABEL = "nvidia.com/gpu.deploy.device-plugin"
OPERATOR_BRINGS = ("true", "paused-for-")
OPERATOR_FOUND = "pre-installed"
# Device plugins: ours, GKE's, the GPU Operator's, NVIDIA's plain manifest, its chart.
PLUGIN_PODS: tuple[Mapping[str, str], ...] = (
    {**MANAGED_BY, COMPONENT_LABEL: PLUGIN_COMPONENT},
    {"k8s-app": "nvidia-gpu-device-plugin"},
    {"app": "nvidia-device-plugin-daemonset"},
    {"name": "nvidia-device-plugin-ds"},
    {"app.kubernetes.io/name": "nvidia-device-plugin"},
)


def is_gpu_resource(name: str) -> bool:
    """Tell whether a resource is a GPU, a part of one, or a share of one."""
    return name in (GPU, SHARED_GPU) or name.startswith(MIG_PREFIX)


def has_gpu_label(labels: Mapping[str, str]) -> bool:
    """Tell whether a node says that it has an NVIDIA GPU."""
    if ACCELERATOR_LABEL in labels or GPU_PRODUCT_LABEL in labels:
        return True
    if any(labels.get(name) == NVIDIA for name in CLOUD_LABELS):
        return True
    return any(labels.get(name) == "true" for name in (GPU_PRESENT_LABEL, *PCI_LABELS))


def read_product(labels: Mapping[str, str]) -> str:
    """Return a node's GPU product as its labels say it; empty if they do not."""
    return labels.get(GPU_PRODUCT_LABEL) or labels.get(ACCELERATOR_LABEL, "")


def read_driver_version(labels: Mapping[str, str]) -> str:
    """Return the driver's version, such as 550.107.02; empty if no label says it."""
    parts = (labels.get(name, "") for name in OLD_DRIVER_LABELS)
    return labels.get(DRIVER_VERSION_LABEL) or ".".join(filter(None, parts))


def describe_kind(resource: str, labels: Mapping[str, str]) -> str:
    """Say what one of a resource is: a whole GPU, a MIG slice, a share of either."""
    product = read_product(labels)
    slice_size = _read_slice(resource, product, labels)
    what = f"MIG slice {slice_size}" if slice_size else "GPU"
    strategy = labels.get(GKE_SHARING_LABEL) or labels.get(SHARING_LABEL, "none")
    shared = resource.endswith(".shared") or product.endswith(SHARED_SUFFIX)
    if shared or strategy != "none":
        return f"shared {what}" + (f" ({strategy})" if strategy != "none" else "")
    return what if slice_size else "whole GPU"


def _read_slice(resource: str, product: str, labels: Mapping[str, str]) -> str:
    """Return a MIG slice's size, such as 1g.5gb: by resource (mixed), product (single) or pool."""
    if resource.startswith(MIG_PREFIX):
        return resource.removeprefix(MIG_PREFIX).removesuffix(".shared")
    if MIG_INFIX in product:
        return product.removesuffix(SHARED_SUFFIX).rpartition(MIG_INFIX)[2]
    return labels.get(PARTITION_LABEL, "")
