"""Why pods do not run: the first obstacle is reported.

The cluster is asked only while pods wait. What may not be read (403) is unknown.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deployer.config.causes import Cause
from deployer.errors import KubeError
from deployer.executors.kubernetes.agents.agent_objects import path_of
from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.diagnose.autoscaling import (
    OF_PLACING,
    WITHOUT_WARNING,
    explain_autoscaling,
    is_refused_for_good,
)
from deployer.executors.kubernetes.diagnose.claims import explain_claims
from deployer.executors.kubernetes.diagnose.containers import (
    explain_containers,
    explain_missing_program,
)
from deployer.executors.kubernetes.diagnose.facts import Event, Facts, Nodes, read_events
from deployer.executors.kubernetes.diagnose.placement import explain_message, explain_placement
from deployer.executors.kubernetes.diagnose.queue import (
    explain_other_cluster,
    explain_suspension,
    is_elsewhere,
    is_suspended,
)
from deployer.executors.kubernetes.diagnose.references import (
    Reference,
    explain_missing,
    list_pull_secrets,
    list_references,
)
from deployer.executors.kubernetes.diagnose.refusals import explain_refusal
from deployer.executors.kubernetes.diagnose.scheduler_message import parse_message
from deployer.executors.kubernetes.diagnose.view import View
from deployer.findings import Finding
from deployer.kube.client import Kube
from deployer.kube.kinds import CLAIM, EVENT, NODE, STORAGE_CLASS, VOLUME, Kind, Manifest
from deployer.kube.names import QUEUE_LABEL
from deployer.kube.objects import ENDED_PHASES, created_at, find_condition
from deployer.waiting import Confirmation

# Most pods have started by then: without a sign of trouble only events are read.
LOOK_AFTER_SECONDS = 3.0
NOT_CREATED = "FailedCreate"  # the Job controller's word for a pod that the server refuses
# An autoscaler without a known label has looked at a pod by then: it scans every 10 s.
PLAIN_SECONDS = 10.0
MANAGED_SECONDS = 60.0  # as the clouds' own do
MANAGED_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
)
LOG = logging.getLogger(__name__)
SCHEDULER = "default-scheduler"
UNSEEN_SECONDS = 30.0
Object = Mapping[str, Any]
Waiting = tuple[Manifest, Manifest | None]  # a Job and its newest pod


class Patience:
    """Logs each reason of a wait once, and is over once a permanent one has lasted 3 s."""

    def __init__(self, what: str, now: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._now = now
        self._told = {""}
        self._permanent = Confirmation()

    def is_over(self, line: str, permanent: bool) -> bool:
        """Log a new line, and return True once the reason has been permanent for long enough."""
        if line not in self._told:
            self._told.add(line)
            LOG.info(f"waiting for {self._what}: {line}")
        return self._permanent.holds(permanent, self._now())


class PendingPods:
    """Explains pods that wait. `grows` is True if nodes are added on demand."""

    def __init__(
        self,
        kube: Kube,
        grows: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._grows = grows
        self._now = now
        self._view = View(kube, now)

    def explain(self, waiting: Iterable[Waiting]) -> Mapping[str, Finding]:
        """Return findings by the name of the Job; of Jobs that are over there is none.

        Raises KubeError.
        """
        pairs = list(waiting)
        if not pairs:
            return {}
        now = self._now()
        events = self._read_events(pairs)
        facts = {job["metadata"]["name"]: self._gather(job, pod, events, now) for job, pod in pairs}
        found = {name: explain(known) for name, known in facts.items()}
        return {name: self._finish(one) for name, one in found.items() if one}

    def _finish(self, found: Finding) -> Finding:
        return replace(found, fix=self._kube.with_context(found.fix))

    def _gather(
        self,
        job: Manifest,
        pod: Manifest | None,
        events: Mapping[str, Sequence[Event]],
        since: float,
    ) -> Facts:
        names = [job["metadata"]["name"], *([pod["metadata"]["name"]] if pod else [])]
        about = [event for name in names for event in events.get(name, ())]
        age = self._kube.now() - created_at(pod) if pod else 0.0
        queue = self._view.find_queue(job) if is_suspended(job) else None
        known = Facts(job, pod, self._kube.namespace, tuple(about), queue=queue, age_seconds=age)
        pending = pod is not None and pod["status"].get("phase") in ("Pending", None)
        if pod is None or not pending or is_suspended(job):
            return known
        if age < LOOK_AFTER_SECONDS and not (about or _is_unscheduled(pod)):
            return known
        # As they are now: one may just have been bound.
        claims = self._read(CLAIM, _list_claims(pod), since) if _is_unscheduled(pod) else {}
        classes = tuple(_list_classes(claims.values()))
        wanted = (*list_references(pod["spec"]), *list_pull_secrets(pod["spec"]), *classes)
        of_claims = [event for name in claims for event in events.get(name, ())]
        return replace(
            known,
            events=(*about, *of_claims),
            missing=self._view.find_missing(wanted, since),
            nodes=self._read_nodes(pod),
            claims=claims,
            volumes={
                name: volume
                for name, one in claims.items()
                for volume in self._read(VOLUME, [one["spec"].get("volumeName")]).values()
            },
            classes=frozenset(self._read(STORAGE_CLASS, [one.name for one in classes])),
        )

    def _read_events(self, waiting: Sequence[Waiting]) -> Mapping[str, Sequence[Event]]:
        """Return warnings, and what autoscalers and the volume controller say without warning."""
        selectors = ["type=Warning"]
        pods = [pod for job, pod in waiting if pod and not is_suspended(job)]
        unscheduled = [pod for pod in pods if _is_unscheduled(pod)]
        if unscheduled:
            selectors += [f"type=Normal,reason={reason}" for reason in WITHOUT_WARNING]
        if any(map(_list_claims, unscheduled)):
            selectors.append(f"type=Normal,involvedObject.kind={CLAIM.kind}")
        return read_events(event for one in selectors for event in self._list_events(one))

    def _list_events(self, selector: str) -> list[Manifest]:
        try:
            return self._kube.list_objects(EVENT, field_selector=selector)
        except KubeError as error:
            if not error.forbidden:
                raise
            return []

    def _read_nodes(self, pod: Manifest) -> Nodes | None:
        """Return all nodes, or the one that a pod was given to, which may not answer."""
        if _is_unscheduled(pod):
            return self._view.read_nodes(self._grows)
        node = self._read(NODE, [pod["spec"].get("nodeName")])
        return Nodes(tuple(node.values()), ()) if node else None

    def _read(
        self, kind: Kind, names: Iterable[str | None], since: float = float("-inf")
    ) -> dict[str, Manifest]:
        """Return the objects that are there and may be read, by name."""
        found = {name: self._view.get(kind, name, since) for name in names if name}
        return {name: one for name, one in found.items() if one}


def explain(facts: Facts) -> Finding | None:
    """Return why an agent's pod does not run; None if no obstacle is known; pure."""
    if is_elsewhere(facts.job):
        return explain_other_cluster(facts.job["metadata"]["labels"].get(QUEUE_LABEL, ""))
    if is_suspended(facts.job):
        return explain_suspension(facts)
    pod, path = facts.pod, path_of(facts.job)
    if pod is None:
        return _explain_absence(facts)
    if pod["status"].get("phase") in ENDED_PHASES:
        return explain_missing_program(pod) or _explain_absence(facts)
    if pod["status"].get("phase") not in ("Pending", None):
        return None
    if pod["spec"].get("nodeName"):
        events = (one for one in facts.events if one.reason not in OF_PLACING)
        facts = replace(facts, events=tuple(events))
        return explain_missing(facts, path) or explain_containers(facts)
    return explain_missing(facts, path) or _explain_unscheduled(pod, facts)


def _explain_absence(facts: Facts) -> Finding | None:
    """Say why a Job has no pod, or not yet another one."""
    job = facts.job["metadata"]["name"]
    if event := facts.find_event(NOT_CREATED, about=job):
        return explain_refusal(event.message, facts.namespace)
    return _repeat(facts.find_newest(job))


def _repeat(event: Event | None) -> Finding | None:
    return rules.OTHER.found(words=f"{event.reason}: {event.message}") if event else None


def _explain_unscheduled(pod: Object, facts: Facts) -> Finding | None:
    condition = find_condition(pod, "PodScheduled", "False")
    if condition is None:
        return _explain_unseen(pod, facts)
    if condition.get("reason") == "SchedulingGated":
        gates = ", ".join(one["name"] for one in pod["spec"].get("schedulingGates") or ())
        return rules.GATED.found(gates=gates)
    if node := pod["status"].get("nominatedNodeName"):
        return rules.PREEMPTS.found(node=node)
    refusal = parse_message(condition.get("message") or "")
    scaling = explain_autoscaling(facts)
    if scaling and not is_refused_for_good(scaling):
        return scaling
    claims = explain_claims(facts, refusal)
    if claims and claims.code == Cause.CLAIM_ELSEWHERE:
        claims = _wait_for_nodes(claims, facts, scaling)
    # A node that is added may have what no node has.
    placed = explain_placement(facts.nodes, pod) if facts.nodes else None
    found = (
        claims
        or (placed and _wait_for_nodes(placed, facts, scaling))
        or explain_message(refusal, pod, facts.nodes)
        or scaling
    )
    said = f"{condition.get('reason', '')}: {condition.get('message', '')}"
    return _note_priority(pod, found) if found else rules.OTHER.found(words=said)


def _explain_unseen(pod: Object, facts: Facts) -> Finding | None:
    """Say that no scheduler has looked at a pod: one that has leaves a condition, or an event."""
    if facts.age_seconds < UNSEEN_SECONDS:
        return None
    if event := facts.find_newest(pod["metadata"]["name"]):
        return _repeat(event)
    named = pod["spec"].get("schedulerName") or SCHEDULER
    rule = rules.UNSEEN if named == SCHEDULER else rules.UNSEEN_BY
    return rule.found(scheduler=named)


def _wait_for_nodes(found: Finding, facts: Facts, scaling: Finding | None) -> Finding:
    """Return a permanent finding as unknown while another node may still be added."""
    if facts.nodes and found.is_permanent and not is_refused_for_good(scaling):
        patience = MANAGED_SECONDS if _is_managed(facts.nodes) else PLAIN_SECONDS
        if facts.nodes.autoscaled or facts.age_seconds < patience:
            return replace(found, transient=None)
    return found


def _is_managed(nodes: Nodes) -> bool:
    labels = (one["metadata"].get("labels") or {} for one in nodes.all)
    return any(name in one for one in labels for name in MANAGED_LABELS)


def _note_priority(pod: Object, found: Finding) -> Finding:
    """Add that a pod waits for others because its priority class never preempts."""
    spec = pod["spec"]
    busy = found.code in (Cause.GPUS_BUSY, Cause.NODES_FULL)
    if not busy or not spec.get("priority") or spec.get("preemptionPolicy") != "Never":
        return found
    rule = rules.PRIORITY if found.transient else rules.PRIORITY_HIDDEN
    return rule.found(reason=found.message, name=spec.get("priorityClassName"))


def _list_claims(pod: Manifest) -> list[str]:
    return [one.name for one in list_references(pod["spec"]) if one.kind == CLAIM]


def _list_classes(claims: Iterable[Manifest]) -> Iterator[Reference]:
    """Yield the StorageClasses that claims which are not bound name."""
    for claim in claims:
        name = claim["spec"].get("storageClassName")
        if name and (claim.get("status") or {}).get("phase") == "Pending":
            yield Reference(STORAGE_CLASS, name)


def _is_unscheduled(pod: Manifest) -> bool:
    return find_condition(pod, "PodScheduled", "False") is not None
