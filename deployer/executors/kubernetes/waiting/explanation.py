"""Why a pod does not run: from what is known of it to one reason; pure.

What stands in the way first is said: the queue, the server, what is missing, the nodes, the
volumes, the containers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deployer.executors.kubernetes.gpu_drivers.labels import is_gpu_resource
from deployer.executors.kubernetes.waiting.autoscaling import (
    OF_PLACING,
    explain_autoscaling,
    is_refused_for_good,
)
from deployer.executors.kubernetes.waiting.containers import explain_containers, explain_missing
from deployer.executors.kubernetes.waiting.facts import Facts, Nodes
from deployer.executors.kubernetes.waiting.missing_program import explain_missing_program
from deployer.executors.kubernetes.waiting.placement import explain_placement, find_untolerated
from deployer.executors.kubernetes.waiting.queue_admission import (
    explain_suspension,
    is_suspended,
)
from deployer.executors.kubernetes.waiting.refusals import explain_refusal
from deployer.executors.kubernetes.waiting.scheduler_message import (
    Barrier,
    Obstacle,
    Refusal,
    parse_message,
)
from deployer.executors.kubernetes.waiting.unbound_claims import explain_claims
from deployer.executors.reason import Cause, Passes, Reason, edit
from deployer.kube.objects import ENDED_PHASES, find_condition

Manifest = Mapping[str, Any]
NOT_CREATED = "FailedCreate"  # the Job controller's word for a pod that the server refuses
# An autoscaler that nothing gives away has looked at a pod by then: it scans every 10 s.
PLAIN_SECONDS = 10.0
MANAGED_SECONDS = 60.0  # as the clouds' own do
MANAGED_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
)
TAINTS = "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints"
HIDDEN = "you may not list nodes"
SCHEDULER = "default-scheduler"
UNSEEN_SECONDS = 30.0
BARRIERS = {
    Barrier.CORDONED: (Cause.NODES_CLOSED, "{} of {} nodes are cordoned"),
    Barrier.NODE_LOST: (Cause.NODE_LOST, "{} of {} nodes are not ready"),
    Barrier.PRESSURE: (Cause.NODE_PRESSURE, "{} of {} nodes are under pressure ({})"),
    Barrier.TAINT: (Cause.TAINT, "{} of {} nodes have a taint that is not tolerated: {}"),
    Barrier.SELECTOR: (Cause.SELECTOR, "none of {1} nodes fits its selector: {2}"),
    Barrier.INSUFFICIENT: (Cause.NODES_FULL, "{} of {} nodes have too little {} free"),
    Barrier.OTHER: (Cause.OTHER, "{} of {} nodes: {}"),
}


def explain(facts: Facts) -> Reason | None:
    """Return why an agent's pod does not run; None while nothing speaks against it."""
    if is_suspended(facts.job):
        return explain_suspension(facts)
    pod = facts.pod
    if pod is None:
        return _explain_absence(facts)
    if pod["status"].get("phase") in ENDED_PHASES:
        return explain_missing_program(pod) or _explain_absence(facts)
    if pod["status"].get("phase") not in ("Pending", None):
        return None
    if pod["spec"].get("nodeName"):
        events = (one for one in facts.events if one.reason not in OF_PLACING)
        return explain_containers(replace(facts, events=tuple(events)))
    return explain_missing(facts) or _explain_unscheduled(pod, facts)


def _explain_absence(facts: Facts) -> Reason | None:
    """Say why a Job has no pod, or not yet another one."""
    job = facts.job["metadata"]["name"]
    if event := facts.find_event(NOT_CREATED, about=job):
        return explain_refusal(event.message, facts.namespace)
    newest = facts.find_newest(job)
    return Reason(Cause.OTHER, f"{newest.reason}: {newest.message}") if newest else None


def _explain_unscheduled(pod: Manifest, facts: Facts) -> Reason | None:
    condition = find_condition(pod, "PodScheduled", "False")
    if condition is None:
        return _explain_unseen(pod, facts)
    if condition.get("reason") == "SchedulingGated":
        gates = ", ".join(one["name"] for one in pod["spec"].get("schedulingGates") or ())
        return Reason(Cause.GATED, f"it is held back by scheduling gates: {gates}")
    if node := pod["status"].get("nominatedNodeName"):
        said = f"it waits until others have left node {node} for it"
        return Reason(Cause.NODES_FULL, said, Passes.WITH_TIME)
    refusal = parse_message(condition.get("message") or "")
    scaling = explain_autoscaling(facts)
    if scaling and scaling.cause is not Cause.AUTOSCALER_REFUSED:
        return scaling
    claims = explain_claims(facts, refusal)
    if claims and claims.cause is Cause.CLAIM_ELSEWHERE:
        claims = _wait_for_nodes(claims, facts, scaling)
    found = (
        claims
        or _explain_nodes(pod, facts, scaling)
        or _explain_message(pod, facts, refusal)
        or scaling
    )
    said = f"{condition.get('reason', '')}: {condition.get('message', '')}"
    return _note_priority(pod, found) if found else Reason(Cause.OTHER, said)


def _explain_unseen(pod: Manifest, facts: Facts) -> Reason | None:
    """Say that no scheduler has looked at a pod: one that has leaves a condition, or an event."""
    if facts.age_seconds < UNSEEN_SECONDS:
        return None
    if event := facts.find_newest(pod["metadata"]["name"]):
        return Reason(Cause.OTHER, f"{event.reason}: {event.message}")
    said = "not scheduled yet: no scheduler has looked at it"
    named = pod["spec"].get("schedulerName") or SCHEDULER
    if named == SCHEDULER:
        remedy = "ask an administrator: kubectl get pods -n kube-system"
        return Reason(Cause.OTHER, said, Passes.UNKNOWN, remedy)
    remedy = f"schedulerName: {SCHEDULER} in your template"
    return Reason(Cause.OTHER, f"{said}; it names {named}", Passes.UNKNOWN, remedy)


def _explain_nodes(pod: Manifest, facts: Facts, scaling: Reason | None) -> Reason | None:
    """Say what the nodes say; what none has may still come with another one."""
    if facts.nodes is None:
        return None
    reason = explain_placement(facts.nodes, pod)
    return reason and _wait_for_nodes(reason, facts, scaling)


def _wait_for_nodes(reason: Reason, facts: Facts, scaling: Reason | None) -> Reason:
    """Return that it is unknown whether a reason passes while another node may still come."""
    if facts.nodes and reason.hopeless and not is_refused_for_good(scaling):
        patience = MANAGED_SECONDS if _is_managed(facts.nodes) else PLAIN_SECONDS
        if facts.nodes.autoscaled or facts.age_seconds < patience:
            return replace(reason, passes=Passes.UNKNOWN)
    return reason


def _is_managed(nodes: Nodes) -> bool:
    labels = (one["metadata"].get("labels") or {} for one in nodes.all)
    return any(name in one for one in labels for name in MANAGED_LABELS)


def _explain_message(pod: Manifest, facts: Facts, refusal: Refusal | None) -> Reason | None:
    """Say what the scheduler says, by the nodes with which the pod came furthest."""
    nearest = refusal.nearest if refusal else None
    if refusal is None or nearest is None or nearest.barrier not in BARRIERS:
        return None
    cause, words = BARRIERS[nearest.barrier]
    if nearest.barrier is Barrier.TAINT and not nearest.detail and facts.nodes:
        nearest = replace(nearest, detail=find_untolerated(facts.nodes, pod))
    if nearest.barrier is Barrier.INSUFFICIENT and is_gpu_resource(nearest.detail):
        cause = Cause.GPUS_BUSY
    detail = _describe(pod, nearest)
    known = facts.nodes is not None
    said = words.format(nearest.count, refusal.nodes, detail).removesuffix(": ")
    if not known:
        said += _note_hidden(nearest)
    return Reason(cause, said, _judge(nearest, known), _mend(nearest, known))


def _describe(pod: Manifest, obstacle: Obstacle) -> str:
    if obstacle.barrier is Barrier.SELECTOR:
        selector = pod["spec"].get("nodeSelector") or {}
        return ", ".join(f"{name}={value}" for name, value in selector.items()) or "affinity"
    return obstacle.words if obstacle.barrier is Barrier.OTHER else obstacle.detail


def _judge(obstacle: Obstacle, known: bool) -> Passes:
    """Tell whether it passes: what is in use does, if the nodes are known to have it."""
    if obstacle.barrier is Barrier.PRESSURE or (known and obstacle.barrier is Barrier.INSUFFICIENT):
        return Passes.WITH_TIME
    return Passes.UNKNOWN


def _note_hidden(obstacle: Obstacle) -> str:
    """Return what only the nodes would tell, to be added to the scheduler's words."""
    if obstacle.barrier is Barrier.INSUFFICIENT:
        most = "none at all" if is_gpu_resource(obstacle.detail) else "too little in all"
        return f", or {most}: {HIDDEN}"
    if obstacle.barrier is Barrier.TAINT and not obstacle.detail:
        return f": which one is not known, since {HIDDEN}"
    return ""


def _mend(obstacle: Obstacle, known: bool) -> str:
    if obstacle.barrier is Barrier.TAINT and obstacle.detail:
        key = obstacle.detail.partition("=")[0]
        return edit("kubernetes", f"tolerations: [{{key: {key}, operator: Exists}}]")
    if obstacle.barrier is Barrier.TAINT:
        return f"ask an administrator: {TAINTS}"
    if obstacle.barrier is Barrier.INSUFFICIENT and not known:
        return "ask an administrator: kubectl describe nodes"
    return ""


def _note_priority(pod: Manifest, reason: Reason) -> Reason:
    """Add that a pod waits for others to end since its priority class pushes nobody out."""
    spec = pod["spec"]
    busy = reason.cause in (Cause.GPUS_BUSY, Cause.NODES_FULL)
    if not busy or not spec.get("priority") or spec.get("preemptionPolicy") != "Never":
        return reason
    said = f"its priority class {spec.get('priorityClassName')} pushes nobody out"
    return replace(reason, cause=Cause.PRIORITY, sentence=f"{reason.sentence}, and {said}")
