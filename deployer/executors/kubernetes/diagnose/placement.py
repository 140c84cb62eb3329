"""Why no node takes a pod: from the nodes where they may be listed, else from the scheduler; pure.

Narrows the nodes down as the scheduler does: by selector, by taints, by what keeps a node closed,
by what it has, by what is free.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.diagnose.facts import Nodes
from deployer.executors.kubernetes.diagnose.scheduler_message import Barrier, Obstacle, Refusal
from deployer.executors.kubernetes.diagnose.shortage import find_gap
from deployer.executors.kubernetes.gpu_drivers.nodes import NodeGpus, is_gpu_resource
from deployer.findings import Finding
from deployer.kube.objects import count_requests, find_condition, sum_requests
from deployer.kube.quantities import format_quantity, read_quantity

Manifest = Mapping[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PRESSURES = {"MemoryPressure": "memory", "DiskPressure": "disk", "PIDPressure": "process ids"}
# Taken away once a node's own agents run (Cilium's, the cloud's own).
STARTUP_TAINTS = ("not-ready", "uninitialized", "startup")
PRODUCT = "gpu.product"
VENDOR = "nvidia.com/"
COUNTED = ("cpu", "memory")  # by every kubelet
STEPS = {"cpu": 0.1, "memory": 64 * 2**20}  # in which advice is given


@dataclass(frozen=True)
class _Room:
    """A node, as far as placing a pod is concerned."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    node: Manifest
    gpus: NodeGpus | None
    held: Mapping[str, float] | None

    def count(self, resource: str) -> float:
        """Return how much of a resource there is, used or not; what is not counted suffices."""
        allocatable = self.node.get("status", {}).get("allocatable") or {}
        if resource not in allocatable:
            return float("inf") if resource in COUNTED else 0.0
        return read_quantity(allocatable[resource])

    def count_free(self, resource: str) -> int:
        """Return how many GPUs are free."""
        found = (r.free for r in (self.gpus.resources if self.gpus else ()) if r.name == resource)
        return next(found, 0)


def explain_placement(nodes: Nodes, pod: Manifest) -> Finding | None:
    """Say why no node takes a pod; None where nodes do not tell, such as for CPUs in use.

    What comes by Dynamic Resource Allocation is in no node.
    """
    wanted = _count_wanted(pod)
    if any(name in (nodes.served or ()) for name in wanted):
        return None
    found = _compare(nodes, pod, wanted)
    hidden = nodes.served is None and any(map(is_gpu_resource, wanted))
    return replace(found, transient=None) if found and found.is_permanent and hidden else found


def _compare(nodes: Nodes, pod: Manifest, wanted: Mapping[str, float]) -> Finding | None:
    """Narrow the nodes down to those that have what is wanted."""
    spec, gpus = pod["spec"], any(map(is_gpu_resource, wanted))
    rooms = _list_rooms(nodes, gpus)
    if not rooms:
        return (rules.NO_GPU_NODE if gpus else rules.NO_NODE).found()
    selected = [room for room in rooms if is_selected(room.name, room.labels, spec)]
    if not selected:
        return _explain_selector(rooms, spec, "node with a GPU" if gpus else "node")
    if misnamed := _explain_name(selected, wanted):
        return misnamed  # before the taints: what is asked for decides which are tolerated
    tolerated = [room for room in selected if find_taint(room.taints, spec) is None]
    if not tolerated:
        # The node that will be there soon, before one that is for others.
        starting = (room for room in selected if _is_starting(room, spec))
        return _explain_taint(next(starting, selected[0]), spec)
    left = tolerated
    for resource, count in wanted.items():
        fitting = [room for room in left if room.count(resource) >= count]
        if not fitting:
            return _explain_resource(left, resource, count)
        left = fitting
    unlocked = [room for room in left if _explain_closure(room) is None]
    if not unlocked:
        return _explain_closure(left[0])
    return _explain_use(unlocked, {n: int(c) for n, c in wanted.items() if is_gpu_resource(n)})


def explain_message(refusal: Refusal | None, pod: Manifest, nodes: Nodes | None) -> Finding | None:
    """Say what the scheduler says, by the nodes with which the pod came furthest.

    What is in use passes only if the nodes are known to have it.
    """
    nearest = refusal.nearest if refusal else None
    if refusal is None or nearest is None:
        return None
    values = {"count": nearest.count, "nodes": refusal.nodes, "resource": nearest.detail}
    if nearest.barrier is Barrier.INSUFFICIENT:
        hidden, known = (rules.NODES_HIDDEN, rules.NODES_FULL)
        if is_gpu_resource(nearest.detail):
            hidden, known = (rules.GPUS_HIDDEN, rules.GPUS_TAKEN)
        return (known if nodes else hidden).found(**values)
    if nearest.barrier is Barrier.TAINT:
        return _explain_taints(nearest, pod, nodes, values)
    if nearest.barrier is Barrier.SELECTOR:
        if nearest.count < refusal.nodes:  # the others may fit: the scheduler has not looked
            return None
        selector = pod["spec"].get("nodeSelector") or {}
        said = ", ".join(f"{name}={value}" for name, value in selector.items()) or "affinity"
        return rules.SELECTORS.found(**values, selector=said)
    rule = {
        Barrier.CORDONED: rules.ALL_CORDONED,
        Barrier.NODE_LOST: rules.ALL_NOT_READY,
        Barrier.PRESSURE: rules.ALL_PRESSED,
        Barrier.DEVICES: rules.DEVICES_TAKEN,
    }.get(nearest.barrier)
    if rule:
        return rule.found(**values)
    if nearest.barrier is Barrier.OTHER:
        said = f"{nearest.count} of {refusal.nodes} nodes: {nearest.words}"
        return rules.OTHER.found(words=said)
    return None


def find_untolerated(nodes: Nodes, pod: Manifest) -> str:
    """Return a taint, `key=value`, that keeps a pod off nodes it asks for; empty if none does."""
    spec = pod["spec"]
    rooms = _list_rooms(nodes, any(map(is_gpu_resource, count_requests(pod))))
    selected = (room for room in rooms if is_selected(room.name, room.labels, spec))
    found = (find_taint(room.taints, spec) for room in selected)
    return next((_name_taint(one) for one in found if one), "")


def find_nearest(wanted: str, there: Iterable[str]) -> str:
    """Return the most similar of some names: one that contains it before one that looks like it."""
    names = sorted(set(there))
    within = [name for name in names if wanted.lower() in name.lower()]
    similar = difflib.get_close_matches(wanted, names, n=1, cutoff=0.3)
    return next(iter([*within, *similar]), "")


def is_selected(name: str, labels: Mapping[str, str], spec: Manifest) -> bool:
    """Return True if a pod's node selector and required affinity allow a node."""
    selector = spec.get("nodeSelector") or {}
    if not selector.items() <= labels.items():
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(REQUIRED) or {}
    terms = required.get("nodeSelectorTerms")
    return terms is None or any(_fits(name, labels, term) for term in terms)


def find_taint(taints: Iterable[Mapping[str, str]], spec: Manifest) -> Mapping[str, str] | None:
    """Return the first taint that keeps the pod away."""
    tolerations = spec.get("tolerations") or ()
    for taint in taints:
        hard = taint.get("effect") in ("NoSchedule", "NoExecute")
        # Of nodes that are cordoned, lost or short of something: their conditions say it better.
        own = taint["key"].startswith("node.kubernetes.io/")
        if hard and not own and not any(_tolerates(one, taint) for one in tolerations):
            return taint
    return None


# As the scheduler compares a label, None if it is not there, with a term's values.
OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: value is not None and int(value) > int(values[0]),
    "Lt": lambda value, values: value is not None and int(value) < int(values[0]),
}


def _fits(name: str, labels: Mapping[str, str], term: Manifest) -> bool:
    fields = {"metadata.name": name}
    return all(
        OPERATORS[one["operator"]](values.get(one["key"]), one.get("values") or ())
        for values, part in ((labels, "matchExpressions"), (fields, "matchFields"))
        for one in term.get(part) or ()
    )


def _tolerates(toleration: Manifest, taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    same_value = toleration.get("value", "") == taint.get("value", "")
    return toleration.get("key") == taint["key"] and same_value


def _list_rooms(nodes: Nodes, wants_gpus: bool) -> list[_Room]:
    gpus = {node.name: node for node in nodes.gpus}
    rooms = [
        _Room(
            name=node["metadata"]["name"],
            labels=node["metadata"].get("labels") or {},
            taints=node.get("spec", {}).get("taints") or (),
            node=node,
            gpus=gpus.get(node["metadata"]["name"]),
            held=None if nodes.held is None else nodes.held.get(node["metadata"]["name"], {}),
        )
        for node in nodes.all
    ]
    return [room for room in rooms if room.gpus or not wants_gpus]


def _count_wanted(pod: Manifest) -> dict[str, float]:
    """Return what one pod asks for: extended resources first, then CPU and memory."""
    wanted: dict[str, float] = dict(count_requests(pod))
    for resource in COUNTED:
        if amount := sum_requests(pod, resource):
            wanted[resource] = amount
    return wanted


def _explain_selector(rooms: Sequence[_Room], spec: Manifest, what: str) -> Finding:
    for name, value in (spec.get("nodeSelector") or {}).items():
        if any(room.labels.get(name) == value for room in rooms):
            continue
        there = {room.labels[name] for room in rooms if name in room.labels}
        if nearest := find_nearest(value, there):
            setting = f'node_selector: {{{name}: "{nearest}"}}'
            if name.endswith(PRODUCT):
                setting = f"gpu: {{product: {nearest}}}"
            label = f"{name}={value}"
            return rules.LABEL_VALUE.found(what=what, label=label, nearest=nearest, setting=setting)
        keys = {key for room in rooms for key in room.labels}
        close = difflib.get_close_matches(name, keys, n=1, cutoff=0.7)
        near = f"; nearest: {close[0]}" if close else ""
        return rules.LABEL.found(what=what, label=f"{name}{near}")
    return rules.SELECTOR.found(what=what)


def _explain_taint(room: _Room, spec: Manifest) -> Finding:
    taint = find_taint(room.taints, spec) or {"key": ""}
    said = f"{_name_taint(taint)}:{taint.get('effect')}"
    rule = rules.TAINT_STARTING if _is_starting(room, spec) else rules.TAINT
    return rule.found(taint=said, node=room.name, key=taint["key"])


def _explain_taints(
    nearest: Obstacle, pod: Manifest, nodes: Nodes | None, values: Mapping[str, object]
) -> Finding:
    """Since 1.34 the scheduler names no taint where nodes differ in them: the nodes may tell."""
    taint = nearest.detail or (find_untolerated(nodes, pod) if nodes else "")
    if taint:
        return rules.TAINTS.found(**values, taint=taint, key=taint.partition("=")[0])
    return (rules.TAINTS_UNNAMED if nodes else rules.TAINTS_HIDDEN).found(**values)


def _name_taint(taint: Mapping[str, str]) -> str:
    return f"{taint['key']}={taint['value']}" if taint.get("value") else taint["key"]


def _is_starting(room: _Room, spec: Manifest) -> bool:
    key = (find_taint(room.taints, spec) or {}).get("key", "")
    return key.rpartition("/")[2].endswith(STARTUP_TAINTS)


def _explain_closure(room: _Room) -> Finding | None:
    """Say why a node takes no pods now, whatever they ask for."""
    if not find_condition(room.node, "Ready"):
        return rules.NOT_READY.found(node=room.name)
    for condition, what in PRESSURES.items():
        if find_condition(room.node, condition):
            return rules.PRESSURE.found(node=room.name, resource=what)
    if room.node.get("spec", {}).get("unschedulable"):
        return rules.CORDONED.found(node=room.name)
    return None


def _explain_resource(rooms: Sequence[_Room], resource: str, count: float) -> Finding:
    """Say that no node has so much of a resource, used or not."""
    if most := max(room.count(resource) for room in rooms):
        shown = format_quantity(most, down=True)
        return rules.TOO_LARGE.found(
            count=format_quantity(count),
            resource=resource,
            most=shown,
            setting=_choose_amount(rooms, resource, shown),
        )
    if misnamed := _explain_name(rooms, [resource]):
        return misnamed
    gaps = [room.gpus for room in rooms if room.gpus and not room.gpus.allocatable]
    gap = find_gap(gaps[0]) if gaps else None
    return gap or rules.NO_RESOURCE.found(resource=resource)


def _explain_name(rooms: Sequence[_Room], wanted: Iterable[str]) -> Finding | None:
    """Say which GPUs nodes offer if it is none that is asked for; None if they offer none."""
    counted = {r.name for room in rooms if room.gpus for r in room.gpus.resources if r.allocatable}
    for resource in wanted:
        if not resource.startswith(VENDOR) or any(room.count(resource) for room in rooms):
            continue
        if counted:
            setting = f"gpu: {{resource: {find_nearest(resource, counted)}}}"
            there = ", ".join(sorted(counted))
            return rules.OTHER_RESOURCE.found(resource=resource, there=there, setting=setting)
    return None


def _explain_use(rooms: Sequence[_Room], wanted: Mapping[str, int]) -> Finding | None:
    """Say that GPUs are in use; None if there are enough, so that something else is missing."""
    for resource, count in wanted.items():
        free = max(room.count_free(resource) for room in rooms)
        if free >= count:
            continue
        if free:
            return rules.GPUS_SPLIT.found(count=count, resource=resource, free=free)
        total = sum(int(room.count(resource)) for room in rooms)
        on = f"{len(rooms)} nodes" if len(rooms) > 1 else f"node {rooms[0].name}"
        return rules.GPUS_IN_USE.found(count=total, resource=resource, nodes=on)
    return None


def _choose_amount(rooms: Sequence[_Room], resource: str, most: str) -> str:
    """Return the setting that asks for what fits beside what stays on a node, if it is known."""
    if resource not in COUNTED:
        return f"gpu: {most}"
    known = [room for room in rooms if room.held is not None]
    left = max(
        (one.count(resource) - (one.held or {}).get(resource, 0) for one in known), default=0
    )
    steps = int(left / STEPS[resource] + 1e-9)
    amount = format_quantity(steps * STEPS[resource]) if steps else "…"
    return f"{resource}: {amount}"
