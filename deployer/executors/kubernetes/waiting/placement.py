"""Why no node takes a pod, from the nodes themselves; pure.

Narrows the nodes down as the scheduler does: by selector, by taints, by what keeps a node closed,
by what it has, by what is free.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.executors.kubernetes.gpu_drivers.labels import is_gpu_resource
from deployer.executors.kubernetes.gpu_drivers.nodes import NodeGpus
from deployer.executors.kubernetes.gpu_drivers.shortage import find_gap
from deployer.executors.kubernetes.waiting.facts import Nodes
from deployer.executors.kubernetes.waiting.node_fit import find_taint, is_selected
from deployer.executors.reason import EDIT, Cause, Passes, Reason, edit
from deployer.kube.objects import count_requests, find_condition, sum_requests
from deployer.kube.quantities import format_quantity, read_quantity

Manifest = Mapping[str, Any]
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


def explain_placement(nodes: Nodes, pod: Manifest) -> Reason | None:
    """Say why no node takes a pod; None where nodes do not tell, such as for CPUs in use."""
    spec, wanted = pod["spec"], _count_wanted(pod)
    gpus = any(map(is_gpu_resource, wanted))
    rooms = _list_rooms(nodes, gpus)
    what = "node with a GPU" if gpus else "node"
    if not rooms:
        remedy = "ask an administrator for nodes"
        if gpus:
            remedy = f"{edit('kubernetes', 'gpu: 0')}, where a CPU will do"
        return Reason(Cause.NO_SUCH_RESOURCE, f"there is no {what} now", Passes.NEVER, remedy)
    selected = [room for room in rooms if is_selected(room.name, room.labels, spec)]
    if not selected:
        return _explain_selector(rooms, spec, what)
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
    unlocked = [room for room in left if _find_closure(room) is None]
    if not unlocked:
        return _find_closure(left[0])
    return _explain_use(unlocked, {n: int(c) for n, c in wanted.items() if is_gpu_resource(n)})


def find_untolerated(nodes: Nodes, pod: Manifest) -> str:
    """Return a taint, `key=value`, that keeps a pod off nodes it asks for; empty if none does."""
    spec = pod["spec"]
    rooms = _list_rooms(nodes, any(map(is_gpu_resource, count_requests(pod))))
    taints = (
        find_taint(room.taints, spec) for room in rooms if is_selected(room.name, room.labels, spec)
    )
    return next((_name_taint(one) for one in taints if one), "")


def find_nearest(wanted: str, there: Iterable[str]) -> str:
    """Return the most similar of some names: one that contains it before one that looks like it."""
    names = sorted(set(there))
    within = [name for name in names if wanted.lower() in name.lower()]
    similar = difflib.get_close_matches(wanted, names, n=1, cutoff=0.3)
    return next(iter([*within, *similar]), "")


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


def _explain_selector(rooms: Sequence[_Room], spec: Manifest, what: str) -> Reason:
    for name, value in (spec.get("nodeSelector") or {}).items():
        if any(room.labels.get(name) == value for room in rooms):
            continue
        there = {room.labels[name] for room in rooms if name in room.labels}
        nearest = find_nearest(value, there)
        if nearest:
            said = f"no {what} has {name}={value}; nearest: {nearest}"
            return Reason(Cause.SELECTOR, said, Passes.NEVER, _choose_label(name, nearest))
        keys = {key for room in rooms for key in room.labels}
        close = difflib.get_close_matches(name, keys, n=1, cutoff=0.7)
        near = f"; nearest: {close[0]}" if close else ""
        said = f"no {what} has a label {name}{near}"
        return Reason(Cause.SELECTOR, said, Passes.NEVER, f"leave it out {EDIT}")
    said = f"no {what} is allowed by the pod's node selector and affinity"
    remedy = "ask an administrator: kubectl get nodes --show-labels"
    return Reason(Cause.SELECTOR, said, Passes.NEVER, remedy)


def _choose_label(name: str, value: str) -> str:
    if name.endswith(PRODUCT):
        return edit("kubernetes", f"gpu: {{product: {value}}}")
    return edit("kubernetes", f'node_selector: {{{name}: "{value}"}}')


def _explain_taint(room: _Room, spec: Manifest) -> Reason:
    taint = find_taint(room.taints, spec) or {"key": ""}
    key, named = taint["key"], _name_taint(taint)
    said = f"taint {named}:{taint.get('effect')} of node {room.name} is not tolerated"
    if _is_starting(room, spec):
        return Reason(Cause.TAINT, said, Passes.WITH_TIME)
    remedy = edit("kubernetes", f"tolerations: [{{key: {key}, operator: Exists}}]")
    return Reason(Cause.TAINT, said, Passes.NEVER, remedy)


def _name_taint(taint: Mapping[str, str]) -> str:
    return f"{taint['key']}={taint['value']}" if taint.get("value") else taint["key"]


def _is_starting(room: _Room, spec: Manifest) -> bool:
    key = (find_taint(room.taints, spec) or {}).get("key", "")
    return key.rpartition("/")[2].endswith(STARTUP_TAINTS)


def _find_closure(room: _Room) -> Reason | None:
    """Say why a node takes no pods now, whatever they ask for."""
    look = f"ask an administrator: kubectl describe node {room.name}"
    if not find_condition(room.node, "Ready"):
        return Reason(Cause.NODE_LOST, f"node {room.name} is not ready", Passes.UNKNOWN, look)
    for condition, what in PRESSURES.items():
        if find_condition(room.node, condition):
            said = f"node {room.name} is short of {what}"
            return Reason(Cause.NODE_PRESSURE, said, Passes.WITH_TIME, look)
    if room.node.get("spec", {}).get("unschedulable"):
        said = f"node {room.name} is cordoned"
        remedy = f"ask an administrator: kubectl uncordon {room.name}"
        return Reason(Cause.NODES_CLOSED, said, Passes.UNKNOWN, remedy)
    return None


def _explain_resource(rooms: Sequence[_Room], resource: str, count: float) -> Reason:
    """Say that no node has so much of a resource, used or not."""
    asks = f"it asks for {format_quantity(count)} {resource}"
    most = max(room.count(resource) for room in rooms)
    if most:
        shown = format_quantity(most, down=True)
        said = f"{asks}, and no node has more than {shown}"
        remedy = _choose_amount(rooms, resource, shown)
        return Reason(Cause.NO_SUCH_RESOURCE, said, Passes.NEVER, remedy)
    if misnamed := _explain_name(rooms, [resource]):
        return misnamed
    gaps = [room.gpus for room in rooms if room.gpus and not room.gpus.allocatable]
    if gaps:
        return _explain_gap(gaps[0])
    remedy = f"ask an administrator for nodes with {resource}"
    return Reason(Cause.NO_SUCH_RESOURCE, f"no node has {resource}", Passes.NEVER, remedy)


def _explain_name(rooms: Sequence[_Room], wanted: Iterable[str]) -> Reason | None:
    """Say which GPUs nodes offer if it is none that is asked for; None if they offer none."""
    counted = {r.name for room in rooms if room.gpus for r in room.gpus.resources if r.allocatable}
    for resource in wanted:
        if not resource.startswith(VENDOR) or any(room.count(resource) for room in rooms):
            continue
        if counted:
            said = f"no node has {resource}; there is {', '.join(sorted(counted))}"
            remedy = edit("kubernetes", f"gpu: {{resource: {find_nearest(resource, counted)}}}")
            return Reason(Cause.NO_SUCH_RESOURCE, said, Passes.NEVER, remedy)
    return None


def _explain_gap(node: NodeGpus) -> Reason:
    """Say what a node with a GPU lacks so that none is counted."""
    said, remedy = find_gap(node)
    busy = node.driver in ("installing", "managed") or node.plugin in ("starting", "running")
    bare = node.driver == "missing" and not node.reason
    passes = Passes.WITH_TIME if busy else Passes.NEVER if bare else Passes.UNKNOWN
    return Reason(Cause.DRIVER_MISSING, said, passes, remedy)


def _explain_use(rooms: Sequence[_Room], wanted: Mapping[str, int]) -> Reason | None:
    """Say that GPUs are in use; None if there are enough, so that something else is missing."""
    for resource, count in wanted.items():
        free = max(room.count_free(resource) for room in rooms)
        if free >= count:
            continue
        total = sum(int(room.count(resource)) for room in rooms)
        on = f"on {len(rooms)} nodes" if len(rooms) > 1 else f"on node {rooms[0].name}"
        said = (
            f"it asks for {count} {resource}, and no node has more than {free} free"
            if free
            else f"all {total} {resource} {on} are in use"
        )
        return Reason(Cause.GPUS_BUSY, said, Passes.WITH_TIME)
    return None


def _choose_amount(rooms: Sequence[_Room], resource: str, most: str) -> str:
    """Return the edit that asks for what fits beside what stays on a node, if that is known."""
    if resource not in COUNTED:
        return edit("kubernetes", f"gpu: {most}")
    known = [room for room in rooms if room.held is not None]
    left = max(
        (one.count(resource) - (one.held or {}).get(resource, 0) for one in known), default=0
    )
    steps = int(left / STEPS[resource] + 1e-9)
    amount = format_quantity(steps * STEPS[resource]) if steps else "…"
    return edit("kubernetes", f"{resource}: {amount}")
