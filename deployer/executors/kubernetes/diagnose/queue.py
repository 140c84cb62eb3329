"""Why a Job is suspended, by Kueue or by a user, and what is wrong with its queue."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.diagnose.facts import Facts, Queue
from deployer.executors.kubernetes.diagnose.placement import find_nearest
from deployer.executors.kubernetes.gpu_drivers.nodes import is_gpu_resource
from deployer.findings import Finding, Severity, edit, right, unknown, warning
from deployer.kube.names import DEFAULT_QUEUE, MULTI_KUEUE, QUEUE_PRIORITY_LABEL
from deployer.kube.objects import find_condition
from deployer.kube.quantities import read_quantity

Manifest = Mapping[str, Any]
NEEDED = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
# What a queue has not, whatever ends; of several flavors each has its words.
LACKS = (rules.QUEUE_SMALL, rules.QUEUE_WITHOUT, rules.NO_FLAVOR)
# All that such a message has to say where no waiting helps.
NEVER = re.compile(
    "|".join(
        (
            r"couldn't assign flavors to pod set \S+: ",
            r"untolerated taint \{.*?\} in flavor [^\s,;]+",
            *(re.sub(r"\?P<\w+>", "", one.pattern) for one in LACKS),
        )
    )
)
# Since 0.19 Kueue may say by the condition's reason what it is (apis/kueue/v1beta2): what passes,
# and where no waiting helps. Its other reasons and those before 0.19 leave it to the message.
PASSING_REASONS = ("WaitingForQuota", "WaitingForPreemptedWorkloads", "WaitingForPodsReady")
NEVER_REASONS = ("ExceedsMaxQuota", "NoMatchingFlavor")
UNCLEAR_REASONS = ("TopologyPlacementFailed", "Misconfigured", "Suspended", "AdmissionGated")
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
    """Return True if a Job is suspended and makes no pods."""
    return bool(find_condition(job, "Suspended") or job.get("spec", {}).get("suspend"))


def explain_suspension(facts: Facts) -> Finding:
    """Return why a suspended Job waits."""
    if facts.queue:
        return explain_queue(facts.job, facts.queue, facts.namespace)
    job = facts.job["metadata"]["name"]
    return rules.SUSPENDED.found(job=job, namespace=facts.namespace)


def explain_queue(job: Manifest, queue: Queue, namespace: str) -> Finding:
    """Return why a Job that is suspended waits in its queue."""
    values = {"queue": queue.name, "namespace": namespace}
    if not queue.known:
        return rules.QUEUE_HIDDEN.found(**values)
    priority = (job["metadata"].get("labels") or {}).get(QUEUE_PRIORITY_LABEL)
    if closed := explain_local_queue(queue, priority, namespace, f"-n {namespace}"):
        return closed
    workload = queue.find_workload(job)
    if workload:
        return _explain_workload(workload, queue, namespace)
    if priority and queue.priorities is None:
        return rules.PRIORITY_UNKNOWN.found(**values, priority=priority)
    return explain_priority(priority, queue.priorities) or rules.NOT_SEEN.found(**values)


def is_elsewhere(job: Manifest) -> bool:
    """Return True if Kueue runs a Job in another cluster: here it has no pods, suspended or not."""
    return bool(job.get("spec", {}).get("managedBy") == MULTI_KUEUE)


def explain_other_cluster(queue: str) -> Finding:
    """Say that a queue's Jobs run where we do not see them."""
    return rules.MULTI_KUEUE.found(queue=queue)


def explain_local_queue(
    queue: Queue, priority: str | None, namespace: str, where: str
) -> Finding | None:
    """Return why a LocalQueue admits nothing; `where` is kubectl's flags.

    A stopped queue may be started again; a missing ClusterQueue is permanent. The fix leaves the
    queue only if the namespace has no other.
    """
    there = set(queue.names)
    if queue.local_queue is None:
        # A priority counts in a queue alone: a file with one and no queue is refused.
        setting = "queue: null, queue_priority: null" if priority else "queue: null"
        if there:
            setting = f"queue: {_choose_queue(queue.name, there)}"
        own = f"; there is {', '.join(sorted(there))}" if there else ""
        return rules.NO_QUEUE.found(
            queue=queue.name, namespace=f"{namespace}{own}", setting=setting
        )
    inactive = find_condition(queue.local_queue, "Active", "False")
    if inactive is None:
        return None
    behind = (queue.local_queue.get("spec") or {}).get("clusterQueue")
    if inactive.get("reason") == "ClusterQueueDoesNotExist":
        others = there - {queue.name}
        rule = rules.OTHER_QUEUE if others else rules.NO_CLUSTER_QUEUE
        nearest = _choose_queue(queue.name, others) if others else ""
        return rule.found(queue=queue.name, behind=behind, nearest=nearest)
    why = inactive.get("message") or "it is stopped"
    if inactive.get("reason") == "ClusterQueueIsInactive":
        why = f"its ClusterQueue {behind} is not active"
    return rules.QUEUE_STOPPED.found(queue=queue.name, why=why, where=where)


def explain_priority(name: str | None, there: Collection[str] | None) -> Finding | None:
    """Return that a WorkloadPriorityClass is missing: Kueue makes no Workload of such a Job."""
    if not name or there is None or name in there:
        return None
    own = f"; there is {', '.join(sorted(there))}" if there else ""
    nearest = find_nearest(name, there) or "null"
    return rules.QUEUE_PRIORITY.found(name=f"{name}{own}", nearest=nearest)


def examine_queue(case: Case) -> Iterator[Finding]:
    """Look at the namespace's queues. Raises KubeError."""
    section, view = case.section, case.view
    kind = view.find_kueue("LocalQueue")
    if kind is None:
        if section.queue:
            said = "Kueue is not in this cluster: the label does nothing"
            yield unknown("queue", f"queue {section.queue}", said)
        return
    queues = view.list_all(kind)
    if queues is None:
        yield unknown("queue", f"queues of {case.namespace}", "may not be listed")
    else:
        yield from judge_queues(case, queues)


def examine_priority(case: Case) -> Iterator[Finding]:
    """Look for the priority class that the Jobs name in their queue. Raises KubeError."""
    if case.section.queue_priority and case.view.find_kueue("WorkloadPriorityClass"):
        yield judge_priority(case.section.queue_priority, case.view.list_priorities())


def judge_queues(case: Case, queues: Sequence[Manifest]) -> Iterator[Finding]:
    """Say whether the agents' queue takes them; pure.

    A permanent condition of Kueue's own is an error; what we infer is a warning.
    """
    found = {one["metadata"]["name"]: one for one in queues}
    names = tuple(sorted(found))
    name = case.section.queue or (DEFAULT_QUEUE if DEFAULT_QUEUE in found else None)
    if name is None:
        if names:
            said = f"this namespace has {', '.join(names)}, and the agents are in none"
            yield unknown("queue", "queue", said, edit("kubernetes", f"queue: {names[0]}"))
        return
    subject, queue = f"queue {name}", Queue(name, found.get(name), names=names)
    closed = explain_local_queue(queue, case.section.queue_priority, case.namespace, case.where)
    if closed:
        said = closed.message.removeprefix(f"{subject} ")
        severity = Severity.UNKNOWN
        if closed.is_permanent:
            severity = Severity.ERROR if queue.local_queue else Severity.WARNING
        yield Finding("queue", subject, said, closed.fix, severity)
    else:
        waiting = (found[name].get("status") or {}).get("pendingWorkloads") or 0
        yield right("queue", subject, f"takes Jobs; {waiting} wait in it")


def judge_priority(name: str, there: Collection[str] | None) -> Finding:
    """Say whether a WorkloadPriorityClass is there; pure."""
    code, subject = "queue-priority", f"WorkloadPriorityClass {name}"
    if there is None:
        return unknown(code, subject, "may not be read")
    if found := explain_priority(name, there):
        there_is = found.message.removeprefix(f"there is no {subject}")
        return warning(code, subject, f"is missing{there_is}", found.fix)
    return right(code, subject, "is there")


def _choose_queue(name: str, there: Collection[str]) -> str:
    """Return the LocalQueue to use instead of another: the most similar, or else any."""
    return find_nearest(name, there) or min(there)


def _explain_workload(workload: Manifest, queue: Queue, namespace: str) -> Finding:
    values = {
        "workload": workload["metadata"]["name"],
        "queue": queue.name,
        "namespace": namespace,
    }
    if workload["spec"].get("active") is False:
        return rules.GIVEN_UP.found(**values)
    status = workload.get("status") or {}
    if status.get("clusterName") or status.get("nominatedClusterNames"):
        return explain_other_cluster(queue.name)
    waiting = find_condition(workload, "QuotaReserved", "False") or {}
    message, reason = waiting.get("message") or "", waiting.get("reason")
    passing = reason in PASSING_REASONS
    if reason in NEVER_REASONS:
        never = rules.match_first(LACKS, message, queue=queue.name, fix=_advise(message))
        return never or rules.NEVER_ADMITTED.found(**values, words=message)
    if reason not in (*PASSING_REASONS, *UNCLEAR_REASONS):
        passing = _is_passing(message, workload)
        if not passing and (never := _explain_never(message, queue.name)):
            return never
    if find_condition(workload, "QuotaReserved"):
        checks = [
            one["name"]
            for one in status.get("admissionChecks") or ()
            if one.get("state") != "Ready"
        ]
        rule = rules.ADMISSION_CHECKS if checks else rules.QUEUE_HAS_ROOM
        return rule.found(**values, checks=", ".join(checks))
    if not passing:
        return rules.NOT_ADMITTED.found(**values, words=message)
    number, count = _find_place(workload, queue)
    more = filter(None, (_say_eviction(workload), _say_need(message)))
    said = "".join(f"; {one}" for one in more)
    return rules.PLACE.found(queue=queue.name, number=number, count=count, more=said)


def _is_passing(message: str, workload: Manifest) -> bool:
    """Return True if what keeps a Workload waiting is known to be transient."""
    # A flavor that has too little of one resource in all is of no use with more of another.
    needed = {(resource, flavor) for resource, flavor, _ in NEEDED.findall(message)}
    found = re.findall(rules.QUEUE_SMALL.pattern, message)
    small = {(resource, flavor) for resource, flavor, _ in found} - needed
    fitting = {flavor for _, flavor in needed} - {flavor for _, flavor in small}
    if not message or fitting or any(one in message for one in PASSING):
        return True
    # Once a Workload is evicted, Kueue repeats there why (pkg/controller/jobframework).
    evicted = find_condition(workload, "Evicted") or {}
    return bool(_say_eviction(workload)) and message == evicted.get("message")


def _explain_never(message: str, queue: str) -> Finding | None:
    """Return what is permanent: the queue lacks what the Job asks for, or has too little of it.

    None if Kueue says something else of another flavor, which may still admit the Job.
    """
    if NEVER.sub("", message).strip(" ,;"):
        return None
    return rules.match_first(LACKS, message, queue=queue, fix=_advise(message))


def _advise(message: str) -> str:
    small = re.search(rules.QUEUE_SMALL.pattern, message)
    return _advise_amount(small["resource"], small["most"]) if small else ""


def _advise_amount(resource: str, most: str) -> str:
    """Return the fix that asks for no more of a resource than a queue has."""
    if resource in ("cpu", "memory"):
        return edit("kubernetes", f'{resource}: "{most}"')
    if is_gpu_resource(resource) and not read_quantity(most):
        return f"{edit('kubernetes', 'gpu: 0')}, where a CPU will do"
    if is_gpu_resource(resource):
        return edit("kubernetes", f"gpu: {{count: {most}}}")
    return f"ask for at most {most} {resource}"


def _find_place(workload: Manifest, queue: Queue) -> tuple[int, int]:
    """Return a Workload's place among those that wait in its queue, and how many these are."""
    others = [one for one in queue.workloads if one is not workload and _waits(one, queue.name)]
    return 1 + sum(_order(one) < _order(workload) for one in others), 1 + len(others)


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


def _say_need(message: str) -> str:
    found = NEEDED.search(message)
    return f"{found[3]} more {found[1]} needed" if found else ""
