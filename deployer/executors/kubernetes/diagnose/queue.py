"""Explains why a Job is suspended, by Kueue or by a user, and checks its queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from deployer.errors import Finding, Severity, edit, right, unknown, warning
from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.diagnose.facts import PodFacts, Queue
from deployer.executors.kubernetes.diagnose.placement import find_nearest
from deployer.executors.kubernetes.diagnose.view import HIDDEN
from deployer.kube.objects import (
    DEFAULT_QUEUE,
    MULTI_KUEUE,
    QUEUE_PRIORITY_LABEL,
    KubeObject,
    find_condition,
)

# Since 0.19 the reason of Kueue's condition may say whether waiting helps (apis/kueue/v1beta2).
NEVER_REASONS = ("Misconfigured", "NoMatchingFlavor", "ExceedsMaxQuota")
PASSING_REASONS = ("WaitingForQuota", "WaitingForPreemptedWorkloads", "WaitingForPodsReady")
# Before, and without its feature gate, only the text says so (pkg/scheduler/flavorassigner).
PASSING = "insufficient unused quota for "


def is_suspended(job: KubeObject) -> bool:
    return bool(find_condition(job, "Suspended") or job.get("spec", {}).get("suspend"))


def explain_suspension(facts: PodFacts) -> Finding:
    """Return why a Job is suspended."""
    if facts.queue:
        return explain_queue(facts.job, facts.queue, facts.namespace)
    job = facts.job["metadata"]["name"]
    return rules.SUSPENDED.found(job=job, namespace=facts.namespace)


def explain_queue(job: KubeObject, queue: Queue, namespace: str) -> Finding:
    where = f"-n {namespace}"
    if not queue.known:
        return rules.NOT_SEEN.found(queue=queue.name, where=where)
    if closed := explain_local_queue(queue, namespace, where):
        return closed
    if workload := queue.find_workload(job):
        return _explain_workload(workload, queue.name, namespace)
    if priority := (job["metadata"].get("labels") or {}).get(QUEUE_PRIORITY_LABEL):
        return rules.NO_PRIORITY.found(queue=queue.name, priority=priority)
    return rules.NOT_SEEN.found(queue=queue.name, where=where)


def is_elsewhere(job: KubeObject) -> bool:
    """Return True if Kueue runs a Job elsewhere: here it has no pods, suspended or not."""
    return bool(job.get("spec", {}).get("managedBy") == MULTI_KUEUE)


def explain_other_cluster(queue: str) -> Finding:
    return rules.MULTI_KUEUE.found(queue=queue)


def explain_local_queue(queue: Queue, namespace: str, where: str) -> Finding | None:
    """Return why a LocalQueue admits nothing; `where` is kubectl's flags.

    A stopped queue is transient; a missing LocalQueue or ClusterQueue is permanent.
    """
    values: dict[str, object] = {"queue": queue.name, "namespace": namespace, "where": where}
    if queue.local_queue is None:
        nearest = find_nearest(queue.name, queue.names) or min(queue.names, default="")
        rule = rules.OTHER_QUEUE if nearest else rules.NO_QUEUE
        return rule.found(**values, nearest=nearest, there=", ".join(sorted(queue.names)))
    inactive = find_condition(queue.local_queue, "Active", "False")
    if inactive is None:
        return None
    if inactive.get("reason") == "ClusterQueueDoesNotExist":
        behind = (queue.local_queue.get("spec") or {}).get("clusterQueue")
        return rules.NO_CLUSTER_QUEUE.found(**values, behind=behind)
    words = inactive.get("message") or inactive.get("reason") or "it is not active"
    return rules.QUEUE_STOPPED.found(**values, words=words)


def examine_queue(case: Case) -> Iterator[Finding]:
    """Check the namespace's queues. Raises KubeError."""
    section, view = case.section, case.view
    kind = view.find_kueue("LocalQueue")
    if kind is None:
        if section.queue:
            said = "this cluster has no Kueue: the label has no effect"
            yield unknown("queue", f"queue {section.queue}", said)
        return
    queues = view.list_all(kind)
    if queues is None:
        yield unknown("queue", f"queues of {case.namespace}", "no permission to list them")
    else:
        yield from judge_queues(case, queues)


def examine_priority(case: Case) -> Iterator[Finding]:
    """Check the priority class of the Jobs' queue. Raises KubeError."""
    name, kind = case.section.queue_priority, case.view.find_kueue("WorkloadPriorityClass")
    if name and kind:
        yield judge_priority(name, case.view.get(kind, name))


def judge_queues(case: Case, queues: Sequence[KubeObject]) -> Iterator[Finding]:
    """Yield whether the agents' queue exists and admits Jobs; pure."""
    found = {one["metadata"]["name"]: one for one in queues}
    names = tuple(sorted(found))
    name = case.section.queue or (DEFAULT_QUEUE if DEFAULT_QUEUE in found else None)
    if name is None:
        if names:
            said = f"this namespace has {', '.join(names)}, but the agents use none"
            yield unknown("queue", "queue", said, edit("kubernetes", f"queue: {names[0]}"))
        return
    subject, queue = f"queue {name}", Queue(name, found.get(name), names=names)
    closed = explain_local_queue(queue, case.namespace, case.where)
    if closed:
        said = closed.message.removeprefix(f"{subject} ")
        severity = Severity.UNKNOWN
        if closed.is_permanent:
            severity = Severity.ERROR if queue.local_queue else Severity.WARNING
        yield Finding("queue", subject, said, closed.fix, severity)
    else:
        waiting = (found[name].get("status") or {}).get("pendingWorkloads") or 0
        yield right("queue", subject, f"takes Jobs; {waiting} wait in it")


def judge_priority(name: str, found: KubeObject | None) -> Finding:
    """Return whether a WorkloadPriorityClass exists: Kueue ignores Jobs without it; pure."""
    code, subject = "queue-priority", f"WorkloadPriorityClass {name}"
    if found is None:
        fix = "ask an administrator: kubectl get workloadpriorityclasses"
        return warning(code, subject, "is missing, so Kueue never sees the agents", fix)
    if found == HIDDEN:
        return unknown(code, subject, "no permission to read it")
    return right(code, subject, "exists")


def _explain_workload(workload: KubeObject, queue: str, namespace: str) -> Finding:
    """Return Kueue's newest message about a Job."""
    values: dict[str, object] = {
        "workload": workload["metadata"]["name"],
        "queue": queue,
        "namespace": namespace,
    }
    status = workload.get("status") or {}
    if status.get("clusterName") or status.get("nominatedClusterNames"):
        return explain_other_cluster(queue)
    evicted = find_condition(workload, "Evicted") or {}
    if workload["spec"].get("active") is False:
        return rules.DEACTIVATED.found(**values, words=evicted.get("message") or "it is inactive")
    if find_condition(workload, "QuotaReserved"):
        checks = [_say_check(one) for one in status.get("admissionChecks") or ()]
        words = (
            "; ".join(filter(None, checks)) or "it has quota for it, and its pod is about to start"
        )
        return rules.WAITS.found(**values, words=words)
    waiting = find_condition(workload, "QuotaReserved", "False") or {}
    words, reason = waiting.get("message") or "", waiting.get("reason")
    if reason in NEVER_REASONS:
        return rules.NEVER_ADMITTED.found(**values, words=words)
    passing = reason in PASSING_REASONS or PASSING in words
    if evicted:  # requeued; Kueue repeats the reason until its next check
        heard = dict.fromkeys(filter(None, (evicted.get("message"), words)))
        said = f"{evicted.get('reason')}: {'; '.join(heard)}"
        found = rules.REQUEUED.found(**values, words=said)
        return found if passing or len(heard) == 1 else replace(found, transient=None)
    if not words:
        return rules.NOT_SEEN.found(**values, where=f"-n {namespace}")
    return (rules.WAITS if passing else rules.NOT_ADMITTED).found(**values, words=words)


def _say_check(check: KubeObject) -> str:
    """Return what an admission check waits for; empty once it is ready."""
    if check.get("state") == "Ready":
        return ""
    message = check.get("message") or str(check.get("state"))
    return f"{check['name']}: {message}"
