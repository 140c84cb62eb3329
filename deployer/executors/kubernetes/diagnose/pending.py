"""Explains why pods do not run: reports the first obstacle.

Requests are sent only while pods are pending. Objects that may not be read (403) are unknown.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from deployer.errors import Finding, KubeError
from deployer.executors.kubernetes.agents.objects import path_of
from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.diagnose.admission import explain_refusal
from deployer.executors.kubernetes.diagnose.containers import (
    explain_containers,
    explain_missing_program,
)
from deployer.executors.kubernetes.diagnose.facts import (
    Event,
    PodFacts,
    explain_missing,
    list_pull_secrets,
    list_references,
    read_events,
)
from deployer.executors.kubernetes.diagnose.placement import UNBOUND, explain_sentence, shorten
from deployer.executors.kubernetes.diagnose.queue import (
    explain_other_cluster,
    explain_suspension,
    is_elsewhere,
    is_suspended,
)
from deployer.executors.kubernetes.diagnose.view import View
from deployer.kube.client import Kube
from deployer.kube.objects import (
    CLAIM,
    ENDED_PHASES,
    EVENT,
    QUEUE_LABEL,
    KubeObject,
    Manifest,
    created_at,
    find_condition,
)
from deployer.waiting import Confirmation

# Most pods have started by then; before, without a sign of trouble, only events are read.
LOOK_AFTER_SECONDS = 3.0
NOT_CREATED = "FailedCreate"  # the Job controller's reason for a refused pod
UNSEEN_SECONDS = 30.0
SCHEDULER = "default-scheduler"
# Events of the components that add nodes, under each cloud's name for them: the cluster autoscaler,
# and Karpenter, which reports `FailedScheduling` like a scheduler.
COMING = ("TriggeredScaleUp", "Nominated")
NOT_COMING = ("NotTriggerScaleUp", "FailedScaleUp", "FailedScheduling")
WITHOUT_WARNING = (*COMING, "NotTriggerScaleUp")
# Events about a claim that is bound once its pod has a node; the pod waits for something else.
WAITS_FOR_POD = ("WaitForFirstConsumer", "WaitForPodScheduled")
LOG = logging.getLogger(__name__)
WaitingPod = tuple[Manifest, Manifest | None]  # a Job and its newest pod


class WaitLog:
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
    """Explains pending pods."""

    def __init__(self, kube: Kube, now: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._now = now
        self._view = View(kube, now)

    def explain(self, waiting: Iterable[WaitingPod]) -> Mapping[str, Finding]:
        """Return findings by Job name; Jobs that have ended have none.

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
    ) -> PodFacts:
        names = [job["metadata"]["name"], *([pod["metadata"]["name"]] if pod else [])]
        about = [event for name in names for event in events.get(name, ())]
        age = self._kube.now() - created_at(pod) if pod else 0.0
        queue = self._view.find_queue(job) if is_suspended(job) else None
        known = PodFacts(job, pod, self._kube.namespace, tuple(about), queue=queue, age_seconds=age)
        pending = pod is not None and pod["status"].get("phase") in ("Pending", None)
        if pod is None or not pending or is_suspended(job):
            return known
        if age < LOOK_AFTER_SECONDS and not (about or _is_unscheduled(pod)):
            return known
        wanted = (*list_references(pod["spec"]), *list_pull_secrets(pod["spec"]))
        missing = self._view.find_missing(wanted, since)
        if not _is_unscheduled(pod):
            return replace(known, missing=missing)
        claims = _list_claims(pod)
        return replace(
            known,
            events=(*about, *(event for name in claims for event in events.get(name, ()))),
            missing=missing,
            nodes=self._view.read_nodes(),
            # Read the current state: a claim may just have been bound.
            claims={name: self._view.get(CLAIM, name, since) or {} for name in claims},
        )

    def _read_events(self, waiting: Sequence[WaitingPod]) -> Mapping[str, Sequence[Event]]:
        """Return warnings, and normal events of autoscalers and the volume controller."""
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


def explain(facts: PodFacts) -> Finding | None:
    """Return why an agent's pod does not run; None if no obstacle is known; pure."""
    if is_elsewhere(facts.job):
        return explain_other_cluster(facts.job["metadata"]["labels"].get(QUEUE_LABEL, ""))
    if is_suspended(facts.job):
        return explain_suspension(facts)
    pod, path = facts.pod, path_of(facts.job)
    if pod is None:
        return _explain_absence(facts)
    if pod["status"].get("phase") in ENDED_PHASES:
        return explain_missing_program(pod) or _explain_end(pod, facts) or _explain_absence(facts)
    if pod["status"].get("phase") not in ("Pending", None):
        return None
    missing = explain_missing(facts.spec, facts.missing, facts.namespace, path)
    if not pod["spec"].get("nodeName"):
        return missing or _explain_unscheduled(pod, facts)
    # Ignore events from before the pod got its node.
    events = (one for one in facts.events if one.reason not in (*COMING, *NOT_COMING))
    return missing or explain_containers(replace(facts, events=tuple(events)))


def _explain_absence(facts: PodFacts) -> Finding | None:
    """Return why a Job has no pod, or no replacement yet."""
    job = facts.job["metadata"]["name"]
    if event := facts.find_newest(job, NOT_CREATED):
        return explain_refusal(event.message, facts.namespace)
    return _repeat(facts.find_newest(job))


def _explain_end(pod: KubeObject, facts: PodFacts) -> Finding | None:
    """Return what ended a pod that its Job replaces; None if it ended by itself."""
    status, ended = pod["status"], find_condition(pod, "DisruptionTarget") or {}
    evicted = status.get("reason") == "Evicted"
    words = (status.get("message") if evicted else "") or ended.get("message")
    if not words:
        return None
    name = pod["metadata"]["name"]
    return rules.EVICTED.found(words=words.strip(), pod=name, namespace=facts.namespace)


def _repeat(event: Event | None) -> Finding | None:
    return rules.OTHER.found(words=event.words) if event else None


def _explain_unscheduled(pod: KubeObject, facts: PodFacts) -> Finding | None:
    condition = find_condition(pod, "PodScheduled", "False")
    if condition is None:
        # No scheduler has seen the pod: otherwise there would be a condition or an event.
        if facts.age_seconds < UNSEEN_SECONDS:
            return None
        if event := facts.find_newest(pod["metadata"]["name"]):
            return _repeat(event)
        return rules.UNSEEN.found(scheduler=pod["spec"].get("schedulerName") or SCHEDULER)
    message = condition.get("message") or ""
    words = shorten(message)
    scaling = _find_scaling(pod, facts)
    if scaling and scaling.reason in COMING:
        return _repeat(scaling)
    said = scaling.message.strip() if scaling else ""
    if none := rules.STOCKOUT.match(said) or rules.CLOUD_QUOTA.match(said):
        return none
    found = _explain_claims(facts, words) or explain_sentence(words, pod, facts.nodes)
    if found is None:
        found = rules.OTHER.found(words=f"{condition.get('reason', '')}: {message}")
    if scaling is None:
        return found
    return replace(found, message=f"{found.message}; {scaling.source}: {said}")


def _find_scaling(pod: KubeObject, facts: PodFacts) -> Event | None:
    """Return the autoscaler's newest event; ignore a scheduler's `FailedScheduling`."""
    for one in reversed(facts.events):
        said = one.about == pod["metadata"]["name"] and one.reason in (*COMING, *NOT_COMING)
        if said and one.source != SCHEDULER and not shorten(one.message):
            return one
    return None


def _explain_claims(facts: PodFacts, words: str) -> Finding | None:
    """Return the event about an unbound claim, if the scheduler waits for one."""
    if not UNBOUND.search(words):
        return None
    unbound = {n: one for n, one in facts.claims.items() if _phase_of(one) != "Bound"}
    found = {name: _find_news(name, claim, facts) for name, claim in unbound.items()}
    where = f"-n {facts.namespace}"
    if not found:  # bound meanwhile, or created with the pod
        return rules.SOME_UNBOUND.found(words=words, where=where)
    waits = [n for n, event in found.items() if event and event.reason in WAITS_FOR_POD]
    name = next((one for one in found if one not in waits), next(iter(found)))
    event = found[name]
    said = event.message.strip() if event else _phase_of(unbound[name]) or words
    return rules.UNBOUND.found(name=name, words=said, where=where)


def _find_news(name: str, claim: KubeObject, facts: PodFacts) -> Event | None:
    """Return the newest event about a claim, not about an earlier one of the same name."""
    event = facts.find_newest(name)
    created = claim.get("metadata", {}).get("creationTimestamp", "")
    return event if event and event.at >= created else None


def _phase_of(claim: KubeObject) -> str:
    return str((claim.get("status") or {}).get("phase") or "")


def _list_claims(pod: Manifest) -> list[str]:
    return [one.name for one in list_references(pod["spec"]) if one.kind == CLAIM]


def _is_unscheduled(pod: Manifest) -> bool:
    return find_condition(pod, "PodScheduled", "False") is not None
