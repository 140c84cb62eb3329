"""Looks at a cluster's GPUs: all nodes where we may, else what our own namespace tells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from deployer.errors import KubeError
from deployer.executors.kubernetes.gpu_drivers.labels import DEVICE_CLASS_PREFIX
from deployer.executors.kubernetes.gpu_drivers.nodes import (
    NodeGpus,
    has_gpus,
    summarise_nodes,
    summarise_own_pods,
)
from deployer.kube.client import Kube
from deployer.kube.kinds import DEVICE_CLASS, JOB, NODE, POD, QUOTA, Kind, Manifest
from deployer.kube.objects import sum_requests

# The server leaves out pods that hold nothing.
HOLDING = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!="


@dataclass(frozen=True)
class Survey:
    """The nodes with GPUs, as far as they may be seen; `all_nodes` are those without, too.

    `complete` is false where nodes may not be listed. `limits` are sentences: what may not be
    seen, and why; `quotas` are those of the namespace that are about GPUs. `held` is what stays
    taken on each node, by resource; None where pods were not looked at. `served` is what comes by
    Dynamic Resource Allocation, as `list_served` says it.
    """

    nodes: tuple[NodeGpus, ...]
    complete: bool = True
    limits: tuple[str, ...] = ()
    quotas: tuple[str, ...] = ()
    all_nodes: tuple[Manifest, ...] = ()
    held: Mapping[str, Mapping[str, float]] | None = None
    served: Mapping[str, str] | None = None


def survey_nodes(kube: Kube) -> tuple[NodeGpus, ...]:
    """Return the nodes with GPUs; a tenant's own pods tell of those that may not be listed."""
    return survey_cluster(kube).nodes


def survey_cluster(kube: Kube) -> Survey:
    """Look at all nodes with GPUs and at who uses them. What is refused (403) is said, not raised.

    Raises KubeError.
    """
    nodes, refusal = _try_list(kube, NODE)
    if refusal:
        pods = _try_list(kube, POD)[0]
        said = f"nodes may not be listed here, so only the pods of namespace {kube.namespace} tell"
        return Survey(summarise_own_pods(pods), False, (said,), _list_quotas(kube))
    return survey_gpus(kube, nodes)


def survey_gpus(kube: Kube, nodes: Sequence[Manifest]) -> Survey:
    """Look at who uses the GPUs of nodes. Raises KubeError."""
    gpu_nodes, served = [node for node in nodes if has_gpus(node)], list_served(kube)
    if not gpu_nodes:
        return Survey((), all_nodes=tuple(nodes), served=served)
    pods, refusal = _try_list(kube.in_namespace(""), POD, HOLDING)
    if not refusal:
        found = summarise_nodes(gpu_nodes, pods)
        return Survey(found, all_nodes=tuple(nodes), held=count_held(pods), served=served)
    pods, _ = _try_list(kube, POD, HOLDING)
    said = f"pods of other namespaces may not be listed: in use counts {kube.namespace} alone"
    return Survey(
        summarise_nodes(gpu_nodes, pods),
        limits=(said,),
        quotas=_list_quotas(kube),
        all_nodes=tuple(nodes),
        served=served,
    )


def list_served(kube: Kube) -> dict[str, str] | None:
    """Return the resources that come by Dynamic Resource Allocation, with their DeviceClass.

    Nodes do not count them. None where DeviceClasses may not be listed. Raises KubeError.
    """
    try:
        classes = kube.list_objects(DEVICE_CLASS)
    except KubeError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return {}
        if not error.forbidden:
            raise
        # Servers before 1.34 refuse what they do not have, too.
        there = kube.find_version(DEVICE_CLASS.group)
        return None if DEVICE_CLASS.api_version == f"{DEVICE_CLASS.group}/{there}" else {}
    names = {one["metadata"]["name"]: one["spec"].get("extendedResourceName") for one in classes}
    own = {f"{DEVICE_CLASS_PREFIX}{name}": name for name in names}
    return own | {resource: name for name, resource in names.items() if resource}


def count_held(pods: Iterable[Manifest]) -> dict[str, Counter[str]]:
    """Return the CPUs and memory on each node of pods that stay, as those of Jobs do not; pure."""
    held: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        owners = pod["metadata"].get("ownerReferences") or ()
        if any(one.get("kind") != JOB.kind for one in owners):
            for resource in ("cpu", "memory"):
                amount = sum_requests(pod, resource)
                held[pod["spec"]["nodeName"]][resource] += amount  # type: ignore[assignment]
    return held


def _try_list(kube: Kube, kind: Kind, field_selector: str = "") -> tuple[list[Manifest], bool]:
    """Return the objects, and whether listing them was refused."""
    try:
        return kube.list_objects(kind, field_selector=field_selector), False
    except KubeError as error:
        if not error.forbidden:
            raise
        return [], True


def _list_quotas(kube: Kube) -> tuple[str, ...]:
    sentences = []
    for quota in _try_list(kube, QUOTA)[0]:
        status = quota.get("status") or {}
        for name, limit in (status.get("hard") or {}).items():
            if name.startswith("requests.nvidia.com/"):
                used = (status.get("used") or {}).get(name, "0")
                what = name.removeprefix("requests.")
                sentences.append(
                    f"quota {quota['metadata']['name']}: {used} of {limit} {what} used"
                )
    return tuple(sentences)
