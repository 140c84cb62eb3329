"""The Kueue queue of the Jobs: it is there, it is active, its ClusterQueue is.

Why a Job waits in it is said in `waiting/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deployer.executors.findings import Finding, right, unknown, wrong
from deployer.executors.kubernetes.examination.case import Case
from deployer.executors.kubernetes.waiting.placement import find_nearest
from deployer.executors.kubernetes.waiting.queues import build_kind
from deployer.executors.reason import edit
from deployer.kube.names import KUEUE
from deployer.kube.objects import find_condition

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
        there = f"; there is {', '.join(names)}" if names else ""
        near = find_nearest(name, names) or "null"
        said = f"is missing{there}"
        yield wrong("queue", subject, said, edit("kubernetes", f"queue: {near}"))
        return
    inactive = find_condition(found, "Active", "False")
    if inactive:
        said = f"takes no Jobs: {inactive.get('message') or inactive.get('reason')}"
        yield wrong("queue", subject, said, f"kubectl describe localqueue {name} {case.where}")
        return
    waiting = (found.get("status") or {}).get("pendingWorkloads") or 0
    yield right("queue", subject, f"takes Jobs; {waiting} wait in it")
