"""Looks at the cluster for what explains pods that do not run, as far as we may.

Asks only while some wait, and each thing again after a while. What may not be read (403) is taken
to be unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from deployer.errors import KubeError
from deployer.executors.kubernetes.gpu_drivers.survey import Survey, survey_cluster
from deployer.executors.kubernetes.waiting.autoscaling import SOURCES
from deployer.executors.kubernetes.waiting.explanation import explain
from deployer.executors.kubernetes.waiting.facts import Event, Facts, Nodes, read_events
from deployer.executors.kubernetes.waiting.missing_objects import MissingObjects
from deployer.executors.kubernetes.waiting.queue_admission import is_suspended
from deployer.executors.kubernetes.waiting.queues import Queues
from deployer.executors.kubernetes.waiting.references import (
    Reference,
    list_pull_secrets,
    list_references,
)
from deployer.executors.reason import Cause, Reason, add_hint
from deployer.kube.client import Kube
from deployer.kube.kinds import CLAIM, EVENT, NODE, STORAGE_CLASS, VOLUME, Manifest
from deployer.kube.objects import created_at, find_condition

# Most pods have started by then, and cost nothing more than the look at the events.
LOOK_AFTER_SECONDS = 3.0
SURVEY_LIFE_SECONDS = 4.0
SURVEY_SHARE = 20  # of the time goes to looks at all nodes, whose pods are many in large clusters
Waiting = tuple[Manifest, Manifest | None]  # a Job and its newest pod


class PendingPods:
    """Explains pods that wait. `grows` tells that nodes come which are not there yet.

    `hints` are what a site adds to the remedies.
    """

    def __init__(
        self,
        kube: Kube,
        grows: bool = False,
        now: Callable[[], float] = time.monotonic,
        hints: Mapping[Cause, str] = MappingProxyType({}),
    ) -> None:
        self._kube = kube
        self._hints = hints
        self._grows = grows
        self._now = now
        self._objects = MissingObjects(kube, now)
        self._queues = Queues(kube, now)
        self._survey = Survey(())
        self._survey_again_at = float("-inf")

    def explain(self, waiting: Iterable[Waiting]) -> Mapping[str, Reason]:
        """Return reasons by the name of the Job; of Jobs that are over there is none.

        Raises KubeError.
        """
        found = list(waiting)
        if not found:
            return {}
        now = self._now()
        events = self._read_events(found)
        facts = {job["metadata"]["name"]: self._gather(job, pod, events, now) for job, pod in found}
        reasons = {name: explain(known) for name, known in facts.items()}
        return {name: add_hint(one, self._hints) for name, one in reasons.items() if one}

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
        queue = self._queues.find(job) if is_suspended(job) else None
        known = Facts(job, pod, self._kube.namespace, tuple(about), queue=queue, age_seconds=age)
        pending = pod is not None and pod["status"].get("phase") in ("Pending", None)
        if pod is None or not pending or age < LOOK_AFTER_SECONDS or is_suspended(job):
            return known
        claims = self._read_claims(pod, since) if _is_unscheduled(pod) else {}
        classes = tuple(_list_classes(claims.values()))
        wanted = (*list_references(pod["spec"]), *list_pull_secrets(pod["spec"]), *classes)
        missing = self._objects.find(wanted, since)
        of_claims = [event for name in claims for event in events.get(name, ())]
        return replace(
            known,
            events=(*about, *of_claims),
            missing=missing,
            nodes=self._read_nodes() if _is_unscheduled(pod) else self._read_node_of(pod),
            claims=claims,
            volumes=self._read_volumes(claims),
            classes=frozenset(
                one.name for one in classes if self._objects.read(STORAGE_CLASS, one.name)
            ),
        )

    def _read_events(self, waiting: Sequence[Waiting]) -> Mapping[str, Sequence[Event]]:
        """Return warnings, and what autoscalers and the volume controller say without warning."""
        selectors = ["type=Warning"]
        pods = [pod for job, pod in waiting if pod and not is_suspended(job)]
        unscheduled = [pod for pod in pods if _is_unscheduled(pod)]
        if unscheduled:
            selectors += [f"type=Normal,source={source}" for source in SOURCES]
        if any(one.kind == CLAIM for pod in unscheduled for one in list_references(pod["spec"])):
            selectors.append(f"type=Normal,involvedObject.kind={CLAIM.kind}")
        return read_events(event for one in selectors for event in self._list_events(one))

    def _list_events(self, selector: str) -> list[Manifest]:
        try:
            return self._kube.list_objects(EVENT, field_selector=selector)
        except KubeError as error:
            if not error.forbidden:
                raise
            return []

    def _read_nodes(self) -> Nodes | None:
        """Look again after a while; what was refused once is not asked again."""
        began = self._now()
        if self._survey.complete and began > self._survey_again_at:
            self._survey = survey_cluster(self._kube)
            ended = self._now()
            life = max(SURVEY_LIFE_SECONDS, SURVEY_SHARE * (ended - began))
            self._survey_again_at = ended + life
        survey = self._survey
        if not survey.complete:
            return None
        return Nodes(survey.all_nodes, survey.nodes, self._grows, survey.held)

    def _read_node_of(self, pod: Manifest) -> Nodes | None:
        """Return the node that a pod was given to, which may not answer."""
        name = pod["spec"].get("nodeName")
        node = self._objects.read(NODE, name) if name else None
        return Nodes((node,), ()) if node else None

    def _read_claims(self, pod: Manifest, since: float) -> dict[str, Manifest]:
        """Return the pod's claims as they are now: one may just have been bound."""
        names = [one.name for one in list_references(pod["spec"]) if one.kind == CLAIM]
        found = {name: self._objects.read(CLAIM, name, since) for name in names}
        return {name: claim for name, claim in found.items() if claim}

    def _read_volumes(self, claims: Mapping[str, Manifest]) -> dict[str, Manifest]:
        bound = {name: claim["spec"].get("volumeName") for name, claim in claims.items()}
        found = {
            name: self._objects.read(VOLUME, volume) for name, volume in bound.items() if volume
        }
        return {name: volume for name, volume in found.items() if volume}


def _list_classes(claims: Iterable[Manifest]) -> Iterator[Reference]:
    """Yield the StorageClasses that claims which are not bound name."""
    for claim in claims:
        name = claim["spec"].get("storageClassName")
        if name and (claim.get("status") or {}).get("phase") == "Pending":
            yield Reference(STORAGE_CLASS, name)


def _is_unscheduled(pod: Manifest) -> bool:
    return find_condition(pod, "PodScheduled", "False") is not None
