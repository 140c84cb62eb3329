"""Why a Job is not let in: it is suspended, by Kueue or by somebody; pure.

Kueue tells in a condition's message alone whether a quota is used up or too small: the wording is
that of its pkg/scheduler/flavorassigner/flavorassigner.go (0.9 to 0.19).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from deployer.executors.kubernetes.gpu_drivers.labels import is_gpu_resource
from deployer.executors.kubernetes.waiting.facts import Facts, Queue
from deployer.executors.kubernetes.waiting.placement import find_nearest
from deployer.executors.reason import Cause, Passes, Reason, edit
from deployer.kube.names import QUEUE_PRIORITY_LABEL
from deployer.kube.objects import find_condition
from deployer.kube.quantities import read_quantity

Manifest = Mapping[str, Any]
NEEDED = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
TOO_SMALL = re.compile(
    # Until 0.14 the amount that is asked for stands before the maximum: (5 > 4).
    r"insufficient quota for (\S+) in flavor (\S+), .*?maximum capacity \((?:\S+ > )?(\S+)\)"
)
NOT_OFFERED = re.compile(r"resource (\S+) unavailable in ClusterQueue")
PRIORITIES = "workloadpriorityclasses"
NO_FLAVOR = re.compile(r"flavor (\S+) doesn't match node affinity")
# All that such a message has to say where no waiting helps; of several flavors each has its words.
NEVER = re.compile(
    "|".join(
        (
            r"couldn't assign flavors to pod set \S+: ",
            r"untolerated taint \{.*?\} in flavor [^\s,;]+",
            *(one.pattern for one in (TOO_SMALL, NOT_OFFERED, NO_FLAVOR)),
        )
    )
)
# What else passes, by its pkg/scheduler/scheduler.go and, the last one, by its
# pkg/controller/core/workload_controller.go (0.9 to 0.19).
PASSING = (
    "Pending the preemption of ",
    "overlapping preemption targets with another workload",
    "no longer fits after processing another workload",
    "preemption calculations were invalidated by another workload",
    "waiting for all admitted workloads to be in PodsReady condition",
    "Workload is pending evaluation in the scheduling queue",
)


def is_suspended(job: Manifest) -> bool:
    """Tell whether a Job makes no pods because it may not."""
    return bool(find_condition(job, "Suspended") or job.get("spec", {}).get("suspend"))


def explain_suspension(facts: Facts) -> Reason:
    """Return why a suspended Job waits."""
    if facts.queue:
        return explain_queue(facts.job, facts.queue, facts.namespace)
    name = facts.job["metadata"]["name"]
    change = '{"spec": {"suspend": false}}'
    remedy = f"kubectl patch job {name} -n {facts.namespace} -p '{change}'"
    return Reason(Cause.SUSPENDED, "its Job is suspended", Passes.UNKNOWN, remedy)


def explain_queue(job: Manifest, queue: Queue, namespace: str) -> Reason:
    """Return why a Job that is suspended waits in its queue."""
    look = f"kubectl describe localqueue {queue.name} -n {namespace}"
    if not queue.known:
        return Reason(Cause.QUEUED, f"it waits in queue {queue.name}", Passes.UNKNOWN, look)
    priority = (job["metadata"].get("labels") or {}).get(QUEUE_PRIORITY_LABEL)
    if queue.local_queue is None:
        missing = explain_missing(queue.name, queue.names, namespace, priority)
        return replace(missing, sentence=f"queue {queue.name} {missing.sentence}")
    if stop := explain_stop(queue.name, queue.local_queue, queue.names, f"-n {namespace}"):
        return replace(stop, sentence=f"queue {queue.name} {stop.sentence}")
    workload = queue.find_workload(job)
    if workload is None:
        if priority and queue.priorities is not None and priority not in queue.priorities:
            return explain_priority(priority, queue.priorities)
        if priority and queue.priorities is None:
            look = f"an administrator sees whether it is there: kubectl get {PRIORITIES} {priority}"
        said = f"Kueue has not seen it yet in queue {queue.name}"
        return Reason(Cause.QUEUED, said, Passes.UNKNOWN, look)
    return _explain_workload(workload, queue, namespace)


def explain_missing(
    name: str, there: Collection[str], namespace: str, priority: str | None
) -> Reason:
    """Return that a LocalQueue is missing; the sentence goes on after its name.

    `there` are the namespace's LocalQueues: only without any is leaving the queue advised.
    """
    own = f"; there is {', '.join(sorted(there))}" if there else ""
    # A priority counts in a queue alone: a file with one and no queue is refused.
    none = "queue: null, queue_priority: null" if priority else "queue: null"
    mend = edit("kubernetes", f"queue: {_choose_queue(name, there)}" if there else none)
    return Reason(Cause.QUEUE_MISSING, f"is not in namespace {namespace}{own}", Passes.NEVER, mend)


def explain_stop(
    name: str, local_queue: Manifest, there: Collection[str], where: str
) -> Reason | None:
    """Return why a LocalQueue admits nothing; the sentence goes on after its name.

    Who stops a queue starts it again, some day; a ClusterQueue that is missing is nobody's plan.
    `there` are the namespace's LocalQueues, `where` is kubectl's flags.
    """
    inactive = find_condition(local_queue, "Active", "False")
    if inactive is None:
        return None
    behind = (local_queue.get("spec") or {}).get("clusterQueue")
    if inactive.get("reason") == "ClusterQueueDoesNotExist":
        said = f"leads to ClusterQueue {behind}, which is missing"
        others = set(there) - {name}
        mend = f"ask an administrator for ClusterQueue {behind}"
        if others:
            mend = edit("kubernetes", f"queue: {_choose_queue(name, others)}")
        return Reason(Cause.QUEUE_MISSING, said, Passes.NEVER, mend)
    why = inactive.get("message") or "it is stopped"
    if inactive.get("reason") == "ClusterQueueIsInactive":
        why = f"its ClusterQueue {behind} is not active"
    look = f"kubectl describe localqueue {name} {where}"
    return Reason(Cause.QUEUE_STOPPED, f"admits nothing: {why}", Passes.UNKNOWN, look)


def explain_priority(name: str, there: Collection[str]) -> Reason:
    """Return that a WorkloadPriorityClass is missing: Kueue makes no Workload of such a Job."""
    own = f"; there is {', '.join(sorted(there))}" if there else ""
    near = find_nearest(name, there) or "null"
    said = f"there is no WorkloadPriorityClass {name}{own}"
    mend = edit("kubernetes", f"queue_priority: {near}")
    return Reason(Cause.PRIORITY_CLASS, said, Passes.NEVER, mend)


def advise_amount(resource: str, most: str) -> str:
    """Return the remedy that asks for no more of a resource than a queue has."""
    if resource in ("cpu", "memory"):
        return edit("kubernetes", f'{resource}: "{most}"')
    if is_gpu_resource(resource) and not read_quantity(most):
        return f"{edit('kubernetes', 'gpu: 0')}, where a CPU will do"
    if is_gpu_resource(resource):
        return edit("kubernetes", f"gpu: {{count: {most}}}")
    return f"ask for at most {most} {resource}"


def _choose_queue(name: str, there: Collection[str]) -> str:
    """Return the LocalQueue to use instead of another: the most similar, or else any."""
    return find_nearest(name, there) or min(there)


def _explain_workload(workload: Manifest, queue: Queue, namespace: str) -> Reason:
    name = workload["metadata"]["name"]
    look = f"kubectl describe workload {name} -n {namespace}"
    if workload["spec"].get("active") is False:
        change = '{"spec": {"active": true}}'
        mend = f"kubectl patch workload {name} -n {namespace} --type merge -p '{change}'"
        return Reason(Cause.QUEUE_STOPPED, "Kueue has given it up", Passes.NEVER, mend)
    waiting = find_condition(workload, "QuotaReserved", "False") or {}
    message = waiting.get("message") or ""
    passing = _is_passing(message, workload)
    if not passing and (never := _explain_never(message, queue.name)):
        return never
    if find_condition(workload, "QuotaReserved"):
        checks = [
            one["name"]
            for one in (workload.get("status") or {}).get("admissionChecks") or ()
            if one.get("state") != "Ready"
        ]
        said = f"queue {queue.name} has room for it; it waits for {', '.join(checks) or 'its pod'}"
        return Reason(Cause.QUEUED, said, Passes.WITH_TIME, look if checks else "")
    if not passing:
        said = f"queue {queue.name} does not admit it: {message}"
        return Reason(Cause.QUEUED, said, Passes.UNKNOWN, look)
    said = f"it is {_say_place(workload, queue)} in queue {queue.name}"
    said = "; ".join(filter(None, (said, _say_eviction(workload), _say_need(waiting))))
    return Reason(Cause.QUEUED, said, Passes.WITH_TIME)


def _is_passing(message: str, workload: Manifest) -> bool:
    """Return True if it is known that what keeps a Workload waiting goes away by itself."""
    # A flavor that has too little of one resource in all is of no use with more of another.
    needed = {(resource, flavor) for resource, flavor, _ in NEEDED.findall(message)}
    small = {(resource, flavor) for resource, flavor, _ in TOO_SMALL.findall(message)} - needed
    fitting = {flavor for _, flavor in needed} - {flavor for _, flavor in small}
    if not message or fitting or any(one in message for one in PASSING):
        return True
    # Once a Workload is evicted, Kueue repeats there why (pkg/controller/jobframework).
    evicted = find_condition(workload, "Evicted") or {}
    return bool(_say_eviction(workload)) and message == evicted.get("message")


def _explain_never(message: str, name: str) -> Reason | None:
    """Return what no waiting mends: the queue has not what the Job asks for, or not as much.

    With a flavor of which it says something else the Job may yet be admitted.
    """
    if NEVER.sub("", message).strip(" ,;"):
        return None
    if found := TOO_SMALL.search(message):
        resource, flavor, most = found.groups()
        said = f"queue {name} has {most} {resource} of {flavor} in all, and it asks for more"
        return Reason(Cause.QUEUE_QUOTA, said, Passes.NEVER, advise_amount(resource, most))
    if found := NOT_OFFERED.search(message):
        said = f"queue {name} has no {found.group(1)} at all"
        mend = f"{edit('kubernetes', 'gpu: {resource: NAME}')}, or another queue"
        return Reason(Cause.QUEUE_QUOTA, said, Passes.NEVER, mend)
    if found := NO_FLAVOR.search(message):
        said = f"queue {name} has no nodes that fit its selector: its flavor is {found.group(1)}"
        mend = f"{edit('kubernetes', 'gpu: {product: NAME}')}, or another queue"
        return Reason(Cause.SELECTOR, said, Passes.NEVER, mend)
    return None


def _say_place(workload: Manifest, queue: Queue) -> str:
    others = [one for one in queue.workloads if one is not workload and _waits(one, queue.name)]
    before = sum(_order(one) < _order(workload) for one in others)
    return f"number {before + 1} of {len(others) + 1}"


def _waits(workload: Manifest, name: str) -> bool:
    spec = workload["spec"]
    if spec.get("queueName") != name or spec.get("active") is False:
        return False
    return not any(find_condition(workload, kind) for kind in ("QuotaReserved", "Finished"))


def _order(workload: Manifest) -> tuple[int, str, str]:
    """Order as Kueue does: by priority, then by when it was queued."""
    metadata = workload["metadata"]
    evicted = find_condition(workload, "Evicted") or {}
    since = evicted.get("lastTransitionTime") or metadata.get("creationTimestamp") or ""
    return -int(workload["spec"].get("priority") or 0), str(since), metadata["name"]


def _say_eviction(workload: Manifest) -> str:
    evicted = find_condition(workload, "Evicted") or {}
    if evicted.get("reason") == "Preempted":
        return "it gave way to one of higher priority"
    if evicted.get("reason") == "PodsReadyTimeout":
        again = ((workload.get("status") or {}).get("requeueState") or {}).get("requeueAt")
        return "its pod did not start in time" + (f", next try at {again}" if again else "")
    return ""


def _say_need(waiting: Manifest) -> str:
    found = NEEDED.search(waiting.get("message") or "")
    return f"{found.group(3)} more {found.group(1)} needed" if found else ""
