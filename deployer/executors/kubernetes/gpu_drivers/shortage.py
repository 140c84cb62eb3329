"""Why a pod that asks for a GPU gets none, in one line; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deployer.executors.kubernetes.gpu_drivers.labels import is_gpu_resource
from deployer.executors.kubernetes.gpu_drivers.nodes import NodeGpus
from deployer.kube.objects import count_requests

Manifest = Mapping[str, Any]
INSTALL = "deployer drivers install"


def explain_no_gpu(nodes: Sequence[NodeGpus], pod: Manifest) -> str:
    """Say why a pending pod gets no GPU; nothing if it asks for none, or GPUs are not the reason.

    Narrows the nodes down as the scheduler does: by selector, by taints, by what they have.
    """
    wanted = {n: count for n, count in count_requests(pod).items() if is_gpu_resource(n)}
    if not wanted:
        return ""
    if not nodes:
        return "no node has a GPU now"
    spec = pod["spec"]
    left = [node for node in nodes if is_selected(node, spec)]
    if not left:
        return _explain_selector(nodes, spec)
    tolerated = [node for node in left if find_taint(node, spec) is None]
    if not tolerated:
        return _explain_taint(left[0], spec)
    open_nodes = [node for node in tolerated if not node.obstacle]
    if not open_nodes:
        return "; ".join(f"node {node.name} {node.obstacle}" for node in tolerated)
    resource, count = next(iter(wanted.items()))
    return _explain_resource(open_nodes, resource, count)


def has_no_such_gpu(nodes: Sequence[NodeGpus], pod: Manifest) -> bool:
    """Tell whether no node has what a pod asks for, whoever uses it now; `nodes` are all there are.

    A node that is cordoned, or counts no GPU yet, may have it later.
    """
    spec, wanted = pod["spec"], count_requests(pod)
    gpus = {name: count for name, count in wanted.items() if is_gpu_resource(name)}
    fitting = [node for node in nodes if is_selected(node, spec)]
    return bool(gpus) and not any(_may_have(node, gpus) for node in fitting)


def _may_have(node: NodeGpus, wanted: Mapping[str, int]) -> bool:
    there = {r.name: r.allocatable or 0 for r in node.resources}
    return not node.allocatable or all(there.get(n, 0) >= c for n, c in wanted.items())


def describe_gap(node: NodeGpus) -> str:
    """Say what a node lacks that counts no GPU; nothing if it counts one."""
    if node.allocatable:
        return ""
    on = f"on node {node.name}"
    if node.reason:
        return f"{node.reason} {on}"
    if node.driver == "installing":
        return f"the driver is being installed {on}"
    if node.driver == "missing":
        return f"the driver is missing {on}: {INSTALL}"
    if node.driver == "managed":
        return f"GKE is installing the driver {on}"
    if node.plugin == "missing" and node.gke:
        return f"GKE's device plugin has not come yet {on}"
    if node.plugin == "missing":
        return f"the device plugin is missing {on}{_ask_for_plugin(node)}"
    return f"the device plugin has counted no GPU yet {on}"


def _ask_for_plugin(node: NodeGpus) -> str:
    said = ", and whether there is a driver cannot be told" if node.driver == "unknown" else ""
    return f"{said}: NVIDIA's GPU Operator, or {INSTALL} --device-plugin"


def _explain_resource(nodes: Sequence[NodeGpus], resource: str, count: int) -> str:
    found = [(node, r) for node in nodes for r in node.resources if r.name == resource]
    allocatable = sum(r.allocatable or 0 for _, r in found)
    if not allocatable:
        return _explain_absence(nodes, resource)
    largest = max(r.allocatable or 0 for _, r in found)
    if count > largest:
        return f"it asks for {count} {resource}, and no node has more than {largest}"
    free = max(r.free for _, r in found)
    if free >= count:
        return ""
    on = f"on {len(found)} nodes" if len(found) > 1 else f"on node {found[0][0].name}"
    if not any(r.free for _, r in found):
        return f"all {allocatable} {resource} {on} are in use"
    return f"it asks for {count} {resource}, and no node has more than {free} free"


def _explain_absence(nodes: Sequence[NodeGpus], resource: str) -> str:
    gap = next(filter(None, map(describe_gap, nodes)), "")
    others = sorted({r.name for node in nodes for r in node.resources if r.allocatable})
    if others:
        return f"no node has {resource}; there is {', '.join(others)}"
    return gap


def _explain_selector(nodes: Sequence[NodeGpus], spec: Manifest) -> str:
    for name, value in (spec.get("nodeSelector") or {}).items():
        if not any(node.labels.get(name) == value for node in nodes):
            there = sorted({node.labels[name] for node in nodes if name in node.labels})
            said = f"; there is {', '.join(there)}" if there else ""
            return f"no node with a GPU has {name}={value}{said}"
    return "no node with a GPU is allowed by the pod's node selector and affinity"


def _explain_taint(node: NodeGpus, spec: Manifest) -> str:
    taint = find_taint(node, spec) or {}
    value = f"={taint['value']}" if taint.get("value") else ""
    shown = f"{taint.get('key')}{value}:{taint.get('effect')}"
    return f"taint {shown} of node {node.name} is not tolerated"


def is_selected(node: NodeGpus, spec: Manifest) -> bool:
    selector = spec.get("nodeSelector") or {}
    if not selector.items() <= node.labels.items():
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms")
    return terms is None or any(_fits(node, term) for term in terms)


def _fits(node: NodeGpus, term: Manifest) -> bool:
    fields = {"metadata.name": node.name}
    return all(
        OPERATORS[one["operator"]](values.get(one["key"]), one.get("values") or ())
        for values, part in ((node.labels, "matchExpressions"), (fields, "matchFields"))
        for one in term.get(part) or ()
    )


# As the scheduler compares a label, None if it is not there, with a term's values.
OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: value is not None and int(value) > int(values[0]),
    "Lt": lambda value, values: value is not None and int(value) < int(values[0]),
}


def find_taint(node: NodeGpus, spec: Manifest) -> Mapping[str, str] | None:
    """Return the first taint that keeps the pod away."""
    tolerations = spec.get("tolerations") or ()
    for taint in node.taints:
        hard = taint.get("effect") in ("NoSchedule", "NoExecute")
        # Of nodes that are cordoned or lost: the obstacle says it better.
        own = taint["key"].startswith("node.kubernetes.io/")
        if hard and not own and not any(_tolerates(one, taint) for one in tolerations):
            return taint
    return None


def _tolerates(toleration: Manifest, taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    same_value = toleration.get("value", "") == taint.get("value", "")
    return toleration.get("key") == taint["key"] and same_value
