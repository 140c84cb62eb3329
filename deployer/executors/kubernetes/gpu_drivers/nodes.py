"""The GPUs of each node, read from nodes and pods; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from deployer.executors.kubernetes.gpu_drivers.labels import (
    ACCELERATOR_LABEL,
    INSTALLER_PODS,
    MANAGED_DRIVER_LABEL,
    OPERATOR_BRINGS,
    OPERATOR_DRIVER_LABEL,
    OPERATOR_FOUND,
    PLUGIN_PODS,
    describe_kind,
    has_gpu_label,
    is_gpu_resource,
    read_driver_version,
    read_product,
)
from deployer.kube.objects import ENDED_PHASES, count_requests, find_condition, find_trouble

Manifest = Mapping[str, Any]
# `managed`: GKE installs it. `unknown`: nothing on the node tells.
DriverState = Literal["managed", "installed", "installing", "failing", "missing", "unknown"]
# `registered`: a GPU is counted, whoever counted it.
PluginState = Literal["running", "starting", "failing", "registered", "missing", "unknown"]
CORDONED = "is cordoned"


@dataclass(frozen=True)
class GpuResource:
    """A resource of a node; None where nodes may not be read. `kind` says what one of it is."""

    name: str
    capacity: int | None
    allocatable: int | None
    in_use: int
    kind: str

    @property
    def free(self) -> int:
        """How many are free."""
        return max((self.allocatable or 0) - self.in_use, 0)


@dataclass(frozen=True)
class NodeGpus:
    """A node with GPUs. `obstacle` is why it takes no pods now; `reason` is what goes wrong."""

    name: str
    product: str
    driver: DriverState
    driver_version: str
    plugin: PluginState
    resources: tuple[GpuResource, ...]
    reason: str = ""
    obstacle: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def allocatable(self) -> bool:
        """Tell whether pods can be given a GPU of this node."""
        return any(resource.allocatable for resource in self.resources)

    @property
    def gke(self) -> bool:
        """Tell whether it is a GPU node of GKE."""
        return ACCELERATOR_LABEL in self.labels


def summarise_nodes(nodes: Iterable[Manifest], pods: Iterable[Manifest]) -> tuple[NodeGpus, ...]:
    """Return the nodes that have GPUs, by name; `pods` are those of all namespaces."""
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


def summarise_own_pods(pods: Iterable[Manifest]) -> tuple[NodeGpus, ...]:
    """Return what one's own pods tell of nodes that may not be read: which GPUs are in use."""
    used: dict[str, Counter[str]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        counts = _count_gpus(pod) if node else Counter[str]()
        if counts and pod["status"].get("phase") not in ENDED_PHASES:
            used.setdefault(node, Counter()).update(counts)
    return tuple(
        NodeGpus(
            name=node,
            product="",
            driver="unknown",
            driver_version="",
            plugin="unknown",
            resources=tuple(
                GpuResource(name, None, None, n, "") for name, n in sorted(counts.items())
            ),
        )
        for node, counts in sorted(used.items())
    )


def has_gpus(node: Manifest) -> bool:
    """Tell whether a node has GPUs, by what it says or by what it counts."""
    return has_gpu_label(labels_of(node)) or any(map(is_gpu_resource, _capacity(node)))


def labels_of(item: Manifest) -> Mapping[str, str]:
    """Return an object's labels."""
    return item["metadata"].get("labels") or {}


def _summarise(node: Manifest, pods: Sequence[Manifest]) -> NodeGpus:
    labels = labels_of(node)
    resources = _list_resources(node, pods)
    counted = any(resource.allocatable for resource in resources)
    installer, plugin = _find_pod(pods, INSTALLER_PODS), _find_pod(pods, PLUGIN_PODS)
    driver = _judge_driver(labels, installer, counted)
    plugin_state = _judge_plugin(plugin, counted)
    troubles = [
        _explain_trouble(what, pod)
        for what, pod, state in (
            ("driver", installer, driver),
            ("device plugin", plugin, plugin_state),
        )
        if pod is not None and state == "failing"
    ]
    return NodeGpus(
        name=node["metadata"]["name"],
        product=read_product(labels),
        driver=driver,
        driver_version=read_driver_version(labels) or labels.get(MANAGED_DRIVER_LABEL, ""),
        plugin=plugin_state,
        resources=resources,
        reason="; ".join(troubles),
        obstacle=_find_obstacle(node),
        labels=labels,
    )


def _judge_driver(
    labels: Mapping[str, str], installer: Manifest | None, counted: bool
) -> DriverState:
    if installer is not None:
        return _judge_installer(installer)
    if MANAGED_DRIVER_LABEL in labels:
        return "managed"
    if counted or read_driver_version(labels):
        return "installed"
    operator = labels.get(OPERATOR_DRIVER_LABEL, "")
    if operator.startswith(OPERATOR_BRINGS):
        return "installing"
    if operator == OPERATOR_FOUND:
        return "installed"
    return "missing" if ACCELERATOR_LABEL in labels else "unknown"


def _judge_installer(pod: Manifest) -> DriverState:
    """Judge by the pod: it is ready once the driver is there."""
    if find_condition(pod, "Ready"):
        return "installed"
    return "failing" if find_trouble(pod) else "installing"


def _judge_plugin(pod: Manifest | None, counted: bool) -> PluginState:
    if pod is None:
        return "registered" if counted else "missing"
    if find_condition(pod, "Ready"):
        return "running"
    return "failing" if find_trouble(pod) else "starting"


def _explain_trouble(what: str, pod: Manifest) -> str:
    trouble = (find_trouble(pod) or {}).get("state", {}).get("waiting", {})
    said = ": ".join(filter(None, (trouble.get("reason"), trouble.get("message"))))
    return f"{what}: pod {pod['metadata']['name']}: {said}"


def _list_resources(node: Manifest, pods: Sequence[Manifest]) -> tuple[GpuResource, ...]:
    used: Counter[str] = sum(map(_count_gpus, pods), Counter())
    capacity, labels = _capacity(node), labels_of(node)
    allocatable = node.get("status", {}).get("allocatable") or {}
    # A slice's strategy leaves others behind at 0, and a plugin that went leaves its own.
    names = sorted(name for name in capacity if is_gpu_resource(name))
    counted = [name for name in names if int(capacity[name])] or names
    return tuple(
        GpuResource(
            name,
            int(capacity[name]),
            int(allocatable.get(name, 0)),
            used[name],
            describe_kind(name, labels),
        )
        for name in counted
    )


def _find_obstacle(node: Manifest) -> str:
    if not find_condition(node, "Ready"):
        return "is not ready"
    return CORDONED if node["spec"].get("unschedulable") else ""


def _find_pod(pods: Sequence[Manifest], wanted: Sequence[Mapping[str, str]]) -> Manifest | None:
    for pod in pods:
        labels = labels_of(pod)
        if any(one.items() <= labels.items() for one in wanted):
            return pod
    return None


def _count_gpus(pod: Manifest) -> Counter[str]:
    return Counter({n: count for n, count in count_requests(pod).items() if is_gpu_resource(n)})


def _capacity(node: Manifest) -> Mapping[str, str]:
    capacity: Mapping[str, str] = node.get("status", {}).get("capacity") or {}
    return capacity
