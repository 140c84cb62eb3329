"""Finds nodes with GPUs: by their resources, and by labels while no device plugin runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from http import HTTPStatus

from deployer.config.kubernetes import GPU_PRODUCT_LABEL
from deployer.errors import KubeError
from deployer.kube.client import Kube
from deployer.kube.objects import (
    COMPONENT_LABEL,
    DEVICE_CLASS,
    ENDED_PHASES,
    MANAGED_BY,
    NODE,
    POD,
    Manifest,
    count_requests,
    find_condition,
)

# GKE's labels (cluster-autoscaler, cloudprovider/gke/labels; cloud.google.com/kubernetes-engine).
ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"
MANAGED_DRIVER_LABEL = "cloud.google.com/gke-gpu-driver-version"
DISTRIBUTION_LABEL = "cloud.google.com/gke-os-distribution"
PARTITION_LABEL = "cloud.google.com/gke-gpu-partition-size"
GKE_SHARING_LABEL = "cloud.google.com/gke-gpu-sharing-strategy"

# NVIDIA's labels (k8s-device-plugin, docs/gpu-feature-discovery/README.md).
GPU_PRESENT_LABEL = "nvidia.com/gpu.present"
SHARING_LABEL = "nvidia.com/gpu.sharing-strategy"
SHARED_SUFFIX = "-SHARED"
MIG_INFIX = "-MIG-"
# A node with one of these has a driver, or GKE installs it.
DRIVER_LABELS = (
    MANAGED_DRIVER_LABEL,
    "nvidia.com/cuda.driver-version.full",
    "nvidia.com/cuda.driver.major",
)

# Node Feature Discovery: a PCI device of NVIDIA's, 10de, with or without the class of device.
PCI_LABELS = tuple(
    f"feature.node.kubernetes.io/pci-{device}.present"
    for device in ("10de", "0300_10de", "0302_10de")
)

# Labels of other clouds for GPU nodes: AKS (learn.microsoft.com/azure/aks/use-nvidia-gpu),
# Karpenter on EKS (karpenter-provider-aws, pkg/apis/v1/labels.go) and EKS Auto Mode; for NVIDIA
# with this value.
CLOUD_LABELS = (
    "kubernetes.azure.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-manufacturer",
    "eks.amazonaws.com/instance-gpu-manufacturer",
)
NVIDIA = "nvidia"

# Dynamic Resource Allocation: the resource name of a DeviceClass that sets no other name
# (k8s.io/api/resource/v1, ResourceDeviceClassPrefix).
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"

GPU = "nvidia.com/gpu"
SHARED_GPU = "nvidia.com/gpu.shared"
MIG_PREFIX = "nvidia.com/mig-"

DRIVER_COMPONENT = "nvidia-driver"
PLUGIN_COMPONENT = "nvidia-device-plugin"

# Pods that install a driver: ours, Google's manually applied DaemonSet, NVIDIA's GPU Operator.
INSTALLER_PODS: tuple[Mapping[str, str], ...] = (
    {**MANAGED_BY, COMPONENT_LABEL: DRIVER_COMPONENT},
    {"k8s-app": "nvidia-driver-installer"},
    {"app": "nvidia-driver-daemonset"},
    {"app.kubernetes.io/component": "nvidia-driver"},
)
# The GPU Operator's labels for what it deploys on a node: true, or paused-for-… while it upgrades,
# or pre-installed if it found a driver (gpu-operator, controllers/state_manager.go).
OPERATOR_DRIVER_LABEL = "nvidia.com/gpu.deploy.driver"
OPERATOR_PLUGIN_LABEL = "nvidia.com/gpu.deploy.device-plugin"
OPERATOR_LABELS = (OPERATOR_DRIVER_LABEL, OPERATOR_PLUGIN_LABEL)
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

CORDONED = "is cordoned"
# The server leaves out pods that hold no resources.
HOLDING = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!="
ASK = (
    "ask the cluster's administrator for NVIDIA's driver and device plugin on the GPU nodes; "
    "NVIDIA's GPU Operator brings both"
)


@dataclass(frozen=True)
class GpuResource:
    """A resource of a node. `kind` describes one unit of it."""

    name: str
    capacity: int
    allocatable: int
    in_use: int
    kind: str

    @property
    def free(self) -> int:
        return max(self.allocatable - self.in_use, 0)


@dataclass(frozen=True)
class NodeGpus:
    """A node with GPUs. `label` proves it; `obstacle` is why the node takes no pods now.

    `installer` and `plugin` are its pods that install the driver and advertise its GPUs.
    """

    name: str
    product: str
    label: str
    resources: tuple[GpuResource, ...]
    obstacle: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, repr=False)
    installer: Manifest | None = field(default=None, repr=False)
    plugin: Manifest | None = field(default=None, repr=False)

    @property
    def allocatable(self) -> bool:
        return any(resource.allocatable for resource in self.resources)

    @property
    def gke(self) -> bool:
        return ACCELERATOR_LABEL in self.labels

    @property
    def has_driver(self) -> bool:
        """Return True if the node has a driver, or if GKE, the operator or a pod installs it."""
        operator = self.labels.get(OPERATOR_DRIVER_LABEL, "")
        return (
            self.allocatable
            or self.installer is not None
            or any(name in self.labels for name in DRIVER_LABELS)
            or operator.startswith((*OPERATOR_BRINGS, OPERATOR_FOUND))
        )


@dataclass(frozen=True)
class Survey:
    """The nodes of a cluster, and those with GPUs.

    `complete` is False without permission to list pods of other namespaces, which may use GPUs.
    """

    nodes: tuple[Manifest, ...]
    gpus: tuple[NodeGpus, ...] = ()
    complete: bool = True


def survey_nodes(kube: Kube) -> Survey:
    """List the nodes, and the pods that use their GPUs. Raises KubeError."""
    try:
        nodes = tuple(kube.list_objects(NODE))
    except KubeError as error:
        if not error.forbidden:
            raise
        said = "you may not list nodes, so their GPUs are unknown"
        hint = f"if pods get no GPU, {ASK}"
        raise KubeError(said, hint, error.status, error.reason) from error
    if not any(map(has_gpus, nodes)):
        return Survey(nodes)
    pods, complete = _list_pods(kube)
    return Survey(nodes, summarise_nodes(nodes, pods), complete)


def list_served(kube: Kube) -> dict[str, str] | None:
    """Return the resources served by Dynamic Resource Allocation, with their DeviceClass.

    Nodes do not count them. None without permission to list DeviceClasses. Raises KubeError.
    """
    try:
        classes = kube.list_objects(DEVICE_CLASS)
    except KubeError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return {}
        if not error.forbidden:
            raise
        # Servers before 1.34 also refuse kinds that they do not have.
        there = kube.find_version(DEVICE_CLASS.group)
        return None if DEVICE_CLASS.api_version == f"{DEVICE_CLASS.group}/{there}" else {}
    names = {one["metadata"]["name"]: one["spec"].get("extendedResourceName") for one in classes}
    own = {f"{DEVICE_CLASS_PREFIX}{name}": name for name in names}
    return own | {resource: name for name, resource in names.items() if resource}


def describe_served(resource: str, device_class: str) -> str:
    return f"DRA provides {resource} (DeviceClass {device_class}): nodes do not report it"


def describe_dra(served: Mapping[str, str] | None) -> str:
    """Describe all GPUs that a cluster serves by DRA; empty if there are none."""
    found = ((name, by) for name, by in (served or {}).items() if is_gpu_resource(name))
    return "; ".join(describe_served(name, by) for name, by in sorted(found))


def summarise_nodes(nodes: Iterable[Manifest], pods: Iterable[Manifest]) -> tuple[NodeGpus, ...]:
    """Return the nodes with GPUs, sorted by name; `pods` are those of all namespaces; pure."""
    by_node: dict[str, list[Manifest]] = {}
    for pod in pods:
        if pod["status"].get("phase") not in ENDED_PHASES:
            by_node.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
    found = [
        _summarise(node, by_node.get(node["metadata"]["name"], ()))
        for node in nodes
        if has_gpus(node)
    ]
    return tuple(sorted(found, key=lambda one: one.name))


def has_gpus(node: Manifest) -> bool:
    return bool(find_gpu_label(_labels_of(node))) or any(map(is_gpu_resource, _capacity(node)))


def is_gpu_resource(name: str) -> bool:
    return name in (GPU, SHARED_GPU) or name.startswith(MIG_PREFIX)


def find_gpu_label(labels: Mapping[str, str]) -> str:
    """Return the label, as name=value, that marks a node with an NVIDIA GPU; empty if none."""
    wanted = dict.fromkeys((GPU_PRESENT_LABEL, *PCI_LABELS), "true")
    wanted |= dict.fromkeys(CLOUD_LABELS, NVIDIA)
    found = [name for name in (ACCELERATOR_LABEL, GPU_PRODUCT_LABEL) if name in labels]
    found += [name for name, value in wanted.items() if labels.get(name) == value]
    return f"{found[0]}={labels[found[0]]}" if found else ""


def _list_pods(kube: Kube) -> tuple[list[Manifest], bool]:
    for client, complete in ((kube.in_namespace(""), True), (kube, False)):
        try:
            return client.list_objects(POD, field_selector=HOLDING), complete
        except KubeError as error:
            if not error.forbidden:
                raise
    return [], False


def _summarise(node: Manifest, pods: Sequence[Manifest]) -> NodeGpus:
    labels = _labels_of(node)
    return NodeGpus(
        name=node["metadata"]["name"],
        product=_read_product(labels),
        label=find_gpu_label(labels),
        resources=_list_resources(node, pods),
        obstacle=_find_obstacle(node),
        labels=labels,
        installer=_find_pod(pods, INSTALLER_PODS),
        plugin=_find_pod(pods, PLUGIN_PODS),
    )


def _list_resources(node: Manifest, pods: Sequence[Manifest]) -> tuple[GpuResource, ...]:
    used: Counter[str] = sum(map(count_requests, pods), Counter())
    capacity, labels = _capacity(node), _labels_of(node)
    allocatable = node.get("status", {}).get("allocatable") or {}
    # A MIG strategy leaves other resources at 0, and a removed plugin leaves its own.
    names = sorted(name for name in capacity if is_gpu_resource(name))
    counted = [name for name in names if int(capacity[name])] or names
    return tuple(
        GpuResource(
            name,
            int(capacity[name]),
            int(allocatable.get(name, 0)),
            used[name],
            _describe_kind(name, labels),
        )
        for name in counted
    )


def _find_obstacle(node: Manifest) -> str:
    if not find_condition(node, "Ready"):
        return "is not ready"
    return CORDONED if node["spec"].get("unschedulable") else ""


def _find_pod(pods: Sequence[Manifest], wanted: Sequence[Mapping[str, str]]) -> Manifest | None:
    for pod in pods:
        labels = _labels_of(pod)
        if any(one.items() <= labels.items() for one in wanted):
            return pod
    return None


def _labels_of(item: Manifest) -> Mapping[str, str]:
    labels: Mapping[str, str] = item["metadata"].get("labels") or {}
    return labels


def _capacity(node: Manifest) -> Mapping[str, str]:
    capacity: Mapping[str, str] = node.get("status", {}).get("capacity") or {}
    return capacity


def _read_product(labels: Mapping[str, str]) -> str:
    return labels.get(GPU_PRODUCT_LABEL) or labels.get(ACCELERATOR_LABEL, "")


def _describe_kind(resource: str, labels: Mapping[str, str]) -> str:
    """Return what one unit of a resource is: a whole GPU, a MIG slice, a share of either."""
    product = _read_product(labels)
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


class GpuProducts:
    """GPU products by node, cached; a new node causes another read."""

    def __init__(self, kube: Kube, label: str) -> None:
        self._kube = kube
        self._label = label
        self._known: dict[str, str] = {}

    def read(self, nodes: Set[str]) -> Mapping[str, str]:
        """Return the products; none for a node without, or without permission to read nodes."""
        if not nodes <= self._known.keys():
            self._known.update(dict.fromkeys(nodes, ""), **self._list())
        return self._known

    def _list(self) -> dict[str, str]:
        try:
            found = self._kube.list_objects(NODE, self._label)
        except KubeError as error:
            if not error.forbidden:
                raise
            return {}
        return {node["metadata"]["name"]: node["metadata"]["labels"][self._label] for node in found}
