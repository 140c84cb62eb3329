"""Why no node fits a pod: the scheduler's sentence, and facts from the nodes; pure.

A tenant who may not list nodes has only the sentence. If nodes may be listed, they give the hint:
the nearest label, the existing GPUs, the taint, the missing driver.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from deployer.errors import Finding
from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.diagnose.facts import ClusterNodes
from deployer.executors.kubernetes.gpu_nodes import (
    MANAGED_DRIVER_LABEL,
    OPERATOR_BRINGS,
    OPERATOR_DRIVER_LABEL,
    NodeGpus,
    is_gpu_resource,
)
from deployer.kube.objects import KubeObject, count_requests, find_condition, find_trouble

# pkg/scheduler/framework/types.go, `FitError.Error`, of Kubernetes 1.24 to 1.37.
HEAD = re.compile(r"^\d+/(?P<nodes>\d+) nodes are available")
TAIL = re.compile(r"\.? *(?:no new claims to deallocate, )?preemption: .*$", re.DOTALL)
# Its parts, in the text of the scheduler's plugins. Taints of lost, cordoned or overloaded nodes
# are Kubernetes' own, not a user's.
LACKS = re.compile(r"Insufficient (\S+?)[,.]?(?=\s|$)")
NO_DEVICE = re.compile(r"cannot allocate all claims")  # Dynamic Resource Allocation
OTHER_LABELS = re.compile(
    r"(?P<count>\d+) node\(s\) didn't (?:match Pod's node affinity(?:/selector)?"
    r"|match node selector|satisfy plugin\(s\) \[NodeAffinity\])"
)
TAINTED = re.compile(
    r"(?P<count>\d+) node\(s\) had (?:untolerated )?"
    r"taint(?:\(s\)| \{(?!node\.kubernetes\.io/)(?P<key>[^}:]*)[^}]*\})"
)
UNBOUND = re.compile(
    r"unbound immediate PersistentVolumeClaims|didn't find available persistent volumes"
)
PRODUCT = "gpu.product"
VENDOR = "nvidia.com/"
# Taints of lost, cordoned or overloaded nodes, and of starting nodes (Cilium's, the cloud's own)
# are transient.
OWN_TAINTS = "node.kubernetes.io/"
STARTUP_TAINTS = ("not-ready", "uninitialized", "startup")


def shorten(message: str) -> str:
    """Return the scheduler's sentence without its tail; empty if it is not about nodes."""
    return TAIL.sub("", message).strip().rstrip(".") if HEAD.match(message) else ""


def explain_sentence(words: str, pod: KubeObject, nodes: ClusterNodes | None) -> Finding | None:
    """Return a finding for the scheduler's sentence; None if it is not about nodes.

    A node that lacks a resource is the nearest fit: resources are checked after labels and taints.
    """
    if not words:
        return None
    lacking = LACKS.findall(words)
    gpus = any(map(is_gpu_resource, lacking)) or NO_DEVICE.search(words)
    labels, tainted = OTHER_LABELS.search(words), TAINTED.search(words)
    if nodes and (gpus or labels or tainted) and (hint := explain_nodes(nodes, pod)):
        return replace(hint, message=f"{words}; {hint.message}")
    if gpus:
        counted = nodes and not NO_DEVICE.search(words) and not is_hidden(nodes, pod)
        return (rules.GPUS_TAKEN if counted else rules.GPUS_BUSY).found(words=words)
    if labels and _are_all(words, OTHER_LABELS, TAINTED):
        return rules.SELECTOR.found(words=words)
    if tainted and _are_all(words, TAINTED):
        rule = rules.TAINT_SAID if tainted["key"] else rules.TAINT_UNNAMED
        return rule.found(words=words, key=tainted["key"])
    return rules.OTHER.found(words=words)


def explain_nodes(nodes: ClusterNodes, pod: KubeObject) -> Finding | None:
    """Return what the pod requests and no node has; None if one has it, or it is unknown.

    Devices from Dynamic Resource Allocation are not in nodes' resources.
    """
    spec = pod["spec"]
    selector = spec.get("nodeSelector") or {}
    chosen = [one for one in nodes.all if is_selected(_labels_of(one), spec)]
    if not chosen:
        return _explain_selector([*map(_labels_of, nodes.all)], selector) if nodes.all else None
    wanted = {name: n for name, n in count_requests(pod).items() if is_gpu_resource(name)}
    names = {one["metadata"]["name"] for one in chosen}
    gpus = [one for one in nodes.gpus if one.name in names]
    if wanted and not is_hidden(nodes, pod):
        fitting = [one for one in gpus if all(_count(one, r) >= n for r, n in wanted.items())]
        if not fitting:
            return _explain_lack(nodes, gpus, wanted, " with its labels" if selector else "")
        names = {one.name for one in fitting}
    taints = [(one, find_taint(one, spec)) for one in chosen if one["metadata"]["name"] in names]
    if not all(taint for _, taint in taints):
        return None
    node, taint = taints[0]
    assert taint
    said = f"{_name_taint(taint)}:{taint.get('effect')}"
    return rules.TAINT.found(taint=said, node=node["metadata"]["name"], key=taint["key"])


def is_hidden(nodes: ClusterNodes, pod: KubeObject) -> bool:
    """Return True if a pod's GPUs come, or may come, by DRA: nodes do not count those."""
    counted = {r.name for one in nodes.gpus for r in one.resources if r.allocatable}
    wanted = [name for name in count_requests(pod) if is_gpu_resource(name)]
    if nodes.served is None:
        return not counted.issuperset(wanted)
    return any(name in nodes.served for name in wanted)


def find_nearest(wanted: str, there: Iterable[str]) -> str:
    """Return the most similar name; one that contains `wanted` before a similar one."""
    names = sorted(set(there))
    within = [name for name in names if wanted.lower() in name.lower()]
    similar = difflib.get_close_matches(wanted, names, n=1, cutoff=0.3)
    return next(iter([*within, *similar]), "")


def is_selected(labels: Mapping[str, str], spec: KubeObject) -> bool:
    """Return True if a pod's node selector matches a node; ignores affinity."""
    return (spec.get("nodeSelector") or {}).items() <= labels.items()


def find_taint(node: KubeObject, spec: KubeObject) -> Mapping[str, str] | None:
    """Return the first permanent taint of a node that keeps a pod away."""
    tolerations = spec.get("tolerations") or ()
    for taint in node.get("spec", {}).get("taints") or ():
        hard = taint.get("effect") in ("NoSchedule", "NoExecute")
        key = taint["key"]
        passing = key.startswith(OWN_TAINTS) or key.endswith(STARTUP_TAINTS)
        if hard and not passing and not any(_tolerates(one, taint) for one in tolerations):
            return dict(taint)
    return None


def find_gap(node: NodeGpus, complete: bool = True) -> Finding | None:
    """Return what a node without allocatable GPUs lacks; None if it has some.

    If not all pods may be listed, an installer may exist unseen.
    """
    if node.allocatable:
        return None
    if troubles := "; ".join(_list_troubles(node)):
        return rules.DRIVER_COMES.found(node=node.name, why=troubles)
    if _is_driver_coming(node):
        return rules.DRIVER_COMES.found(node=node.name, why="its driver is being installed")
    if node.gke and not node.has_driver:
        return rules.NO_DRIVER.found(node=node.name)
    if node.plugin is None and complete and not node.gke:
        return rules.NO_PLUGIN.found(node=node.name)
    seen = "its device plugin has reported none yet"
    why = seen if node.plugin else "no device plugin runs there yet"
    return rules.DRIVER_COMES.found(node=node.name, why=why)


def _are_all(words: str, *parts: re.Pattern[str]) -> bool:
    """Return True if only these parts keep the pod off all nodes."""
    counts = (int(one["count"]) for part in parts for one in part.finditer(words))
    head = HEAD.match(words)
    return head is not None and sum(counts) == int(head["nodes"])


def _labels_of(node: KubeObject) -> Mapping[str, str]:
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    return labels


def _count(node: NodeGpus, resource: str) -> int:
    return sum(one.allocatable for one in node.resources if one.name == resource)


def _tolerates(toleration: KubeObject, taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    same_value = toleration.get("value", "") == taint.get("value", "")
    return toleration.get("key") == taint["key"] and same_value


def _name_taint(taint: Mapping[str, str]) -> str:
    return f"{taint['key']}={taint['value']}" if taint.get("value") else taint["key"]


def _explain_selector(nodes: Sequence[Mapping[str, str]], selector: Mapping[str, str]) -> Finding:
    """Return the label that no node has, with the nearest one; `nodes` are their labels."""
    pairs = selector.items()
    lacking = [pair for pair in pairs if not any(pair in one.items() for one in nodes)]
    if not lacking:
        return rules.LABEL.found(label=" and ".join(f"{name}={value}" for name, value in pairs))
    name, value = lacking[0]
    if nearest := find_nearest(value, (one[name] for one in nodes if name in one)):
        setting = f'node_selector: {{{name}: "{nearest}"}}'
        if name.endswith(PRODUCT):
            setting = f"gpu: {{product: {nearest}}}"
        label = f"{name}={value}"
        return rules.LABEL_VALUE.found(label=label, nearest=nearest, setting=setting)
    close = difflib.get_close_matches(name, {key for one in nodes for key in one}, 1, 0.7)
    near = f"; nearest: {close[0]}" if close else ""
    return rules.LABEL.found(label=f"{name}={value}{near}")


def _explain_lack(
    nodes: ClusterNodes, chosen: Sequence[NodeGpus], wanted: Mapping[str, int], where: str
) -> Finding:
    """Return why no chosen node has enough GPUs: a missing driver, or too few."""
    gaps = (gap for one in chosen if (gap := find_gap(one, nodes.complete)))
    if not any(one.allocatable for one in chosen) and (gap := next(gaps, None)):
        return gap
    most: dict[str, tuple[int, str]] = {}
    for node in nodes.gpus:
        for one in node.resources:
            if one.allocatable:
                found = (one.allocatable, node.product or node.name)
                most[one.name] = max(most.get(one.name, (0, "")), found)
    resource, count = next(
        ((r, n) for r, n in wanted.items() if all(_count(one, r) < n for one in chosen)),
        next(iter(wanted.items())),
    )
    offers = (f"at most {n} {name} on {product}" for name, (n, product) in sorted(most.items()))
    there = ", ".join(offers) or "none"
    values = {"resource": resource, "count": count, "where": where, "there": there}
    if resource in most or not most or not resource.startswith(VENDOR):
        return rules.NO_GPU.found(**values)
    setting = f"gpu: {{resource: {find_nearest(resource, most) or min(most)}}}"
    return rules.OTHER_GPU.found(**values, setting=setting)


def _is_driver_coming(node: NodeGpus) -> bool:
    """Return True if GKE, the GPU Operator or a pod is installing the driver."""
    if node.installer is not None:
        return not find_condition(node.installer, "Ready")
    brings = node.labels.get(OPERATOR_DRIVER_LABEL, "").startswith(OPERATOR_BRINGS)
    return MANAGED_DRIVER_LABEL in node.labels or brings


def _list_troubles(node: NodeGpus) -> Iterator[str]:
    for what, pod in (("driver", node.installer), ("device plugin", node.plugin)):
        if pod is None or find_condition(pod, "Ready"):
            continue
        if found := find_trouble(pod):
            waiting = found["state"].get("waiting", {})
            said = ": ".join(filter(None, (waiting.get("reason"), waiting.get("message"))))
            yield f"{what}: pod {pod['metadata']['name']}: {said}"
