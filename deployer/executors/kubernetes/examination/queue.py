"""The Kueue queue of the Jobs: it is there, it is active, its priority class is.

Why a Job waits in it is said in `waiting/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deployer.errors import KubeError
from deployer.executors.kubernetes.examination.case import Case
from deployer.executors.kubernetes.examination.queue_quota import Quotas, judge_quotas
from deployer.executors.kubernetes.waiting.queue_admission import (
    explain_missing,
    explain_priority,
    explain_stop,
)
from deployer.executors.kubernetes.waiting.queues import PRIORITY, build_kind
from deployer.executors.reason import edit
from deployer.findings import Finding, right, unknown, wrong
from deployer.kube.names import KUEUE

Manifest = Mapping[str, Any]


def examine_queue(case: Case) -> Iterator[Finding]:
    """Look at the namespace's queues. Raises KubeError."""
    version = case.kube.find_version(KUEUE)
    if version is None:
        if case.section.queue:
            said = "Kueue is not in this cluster: the label does nothing"
            yield unknown("queue", f"queue {case.section.queue}", said)
        return
    queues = case.kube.list_objects(build_kind(version, "LocalQueue"))
    yield from judge_queues(case, queues)
    own = (one for one in queues if one["metadata"]["name"] == case.section.queue)
    for queue in own:
        yield from judge_quotas(case, queue, _read_quotas(case, version, queue))


def examine_priority(case: Case) -> Iterator[Finding]:
    """Look for the priority class that the Jobs name in their queue. Raises KubeError."""
    name, version = case.section.queue_priority, case.kube.find_version(KUEUE)
    if name is None or version is None:
        return
    there = case.kube.list_objects(build_kind(version, PRIORITY))
    yield judge_priority(name, {one["metadata"]["name"] for one in there})


def judge_priority(name: str, there: set[str]) -> Finding:
    """Say whether a WorkloadPriorityClass is there; pure."""
    subject = f"WorkloadPriorityClass {name}"
    if name in there:
        return right("queue-priority", subject, "is there")
    reason = explain_priority(name, there)
    return wrong("queue-priority", subject, reason.sentence, reason.remedy)


def judge_queues(case: Case, queues: Sequence[Manifest]) -> Iterator[Finding]:
    """Say whether the agents' queue takes them; pure."""
    names = sorted(one["metadata"]["name"] for one in queues)
    name = case.section.queue
    if name is None:
        if names:
            said = f"this namespace has {', '.join(names)}, and the agents are in none"
            yield unknown("queue", "queue", said, edit("kubernetes", f"queue: {names[0]}"))
        return
    subject = f"queue {name}"
    found = next((one for one in queues if one["metadata"]["name"] == name), None)
    if found is None:
        missing = explain_missing(name, names, case.namespace, case.section.queue_priority)
        yield wrong("queue", subject, missing.sentence, missing.remedy)
        return
    if stop := explain_stop(name, found, names, case.where):
        build = wrong if stop.hopeless else unknown
        yield build("queue", subject, stop.sentence, stop.remedy)
        return
    waiting = (found.get("status") or {}).get("pendingWorkloads") or 0
    yield right("queue", subject, f"takes Jobs; {waiting} wait in it")


def _read_quotas(case: Case, version: str, queue: Manifest) -> Quotas | None:
    """Return what is behind a queue; None to a tenant, who may not look."""
    try:
        behind = case.kube.get(build_kind(version, "ClusterQueue"), queue["spec"]["clusterQueue"])
        flavors = case.kube.list_objects(build_kind(version, "ResourceFlavor"))
    except KubeError as error:
        if not error.forbidden:
            raise
        return None
    return Quotas(behind, {one["metadata"]["name"]: one for one in flavors}) if behind else None
