"""Why a Job waits in Kueue's queue, from what its Workload and LocalQueue say."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.errors import PERMANENT, TRANSIENT, Finding
from deployer.executors.kubernetes.diagnose.facts import Queue
from deployer.executors.kubernetes.diagnose.queue import explain_queue
from deployer.kube.objects import QUEUE_PRIORITY_LABEL
from tests.docs.pending_table import is_listed
from tests.executors.edits import follow

FLAVOR = "couldn't assign flavors to pod set main: "
USED = f"{FLAVOR}insufficient unused quota for nvidia.com/gpu in flavor a100, 1 more needed"
SMALL = (
    f"{FLAVOR}insufficient quota for nvidia.com/gpu in flavor a100, previously considered podsets "
    "requests (0) + current podset request (5) > maximum capacity (4)"
)
PREEMPTED = "Preempted to accommodate a workload (UID: 1, JobUID: 2) due to prioritization"
LATE = "Exceeded the PodsReady timeout ns/a"
# pkg/scheduler/scheduler.go and pkg/scheduler/flavorassigner of Kueue 0.9 to 0.19: only quota in
# use is sure to pass.
PASSING = [
    USED,
    f"{USED}. Pending the preemption of 1 workload(s)",
    f"{USED}. Preempting 1 workload(s) failed, will retry.",
    f"{SMALL}; {USED}",
]
UNKNOWN = [
    SMALL,
    f"{FLAVOR}flavor a100 doesn't match node affinity",
    f"{FLAVOR}resource nvidia.com/mig-1g.5gb unavailable in ClusterQueue",
    "Workload namespace doesn't match ClusterQueue selector",
    "ClusterQueue all is inactive",
    "LocalQueue q is stopped",
    "The workload has failed admission checks",
    "what a later version of Kueue may say",
]


def build_workload(
    name: str, message: str = "", evicted: tuple[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    """Return the Workload of the Job with uid NAME, which no quota is reserved for.

    `evicted` are the reason and the message of its eviction.
    """
    waiting = {"type": "QuotaReserved", "status": "False", "message": message}
    reason, words = evicted or ("", "")
    gone = {"type": "Evicted", "status": "True", "reason": reason, "message": words}
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": f"2026-01-01T00:00:0{len(name)}Z",
            "ownerReferences": [{"uid": name}],
        },
        "spec": {"queueName": "q", **more},
        "status": {"conditions": [waiting, gone] if evicted else [waiting]},
    }


def explain(*workloads: dict[str, Any], uid: str = "a", stopped: str = "") -> Finding:
    """Return why a Job waits; `stopped` is Kueue's reason why its queue is not active."""
    inactive = {"type": "Active", "status": "False", "reason": stopped, "message": "as it says"}
    local = {"spec": {"clusterQueue": "all"}, "status": {"conditions": [inactive]}}
    queue = Queue("q", local if stopped else {"status": {}}, workloads)
    return explain_queue({"metadata": {"uid": uid}}, queue, "ns")


def build_job(priority: str | None) -> dict[str, Any]:
    """Return a Job with this priority in its queue, which Kueue has not seen."""
    labels = {QUEUE_PRIORITY_LABEL: priority} if priority else {}
    return {"metadata": {"uid": "a", "labels": labels}}


@pytest.mark.parametrize("message", PASSING)
def test_quota_in_use_passes(message: str) -> None:
    found = explain(build_workload("a", message))
    assert found.message == f"it waits in queue q: {message}"
    assert (found.code, found.transient) == (Cause.QUEUED, TRANSIENT)
    assert is_listed(found)


@pytest.mark.parametrize("message", UNKNOWN)
def test_what_is_not_known_is_told_in_kueues_own_words(message: str) -> None:
    found = explain(build_workload("a", message))
    assert found.message == f"queue q does not admit it: {message}"
    assert (found.code, found.transient) == (Cause.QUEUED, None)
    assert found.fix == "kubectl describe workload a -n ns"
    assert is_listed(found)


@pytest.mark.parametrize(
    ("reason", "message"), [("Preempted", PREEMPTED), ("PodsReadyTimeout", LATE)]
)
def test_an_eviction_is_told_until_it_is_admitted_again(reason: str, message: str) -> None:
    """Kueue repeats the eviction's message until it has tried the Workload again."""
    tried = explain(build_workload("a", USED, (reason, message)))
    assert (tried.code, tried.transient) == (Cause.EVICTED, TRANSIENT)
    assert tried.message == f"Kueue has evicted it: {reason}: {message}; {USED}"
    assert is_listed(tried)
    unsure = explain(build_workload("a", UNKNOWN[0], (reason, message)))
    assert (unsure.code, unsure.transient) == (Cause.EVICTED, None)
    found = explain(build_workload("a", message, (reason, message)))
    assert (found.code, found.transient) == (Cause.EVICTED, TRANSIENT)
    assert found.message == f"Kueue has evicted it: {reason}: {message}"
    assert is_listed(found)


def test_a_workload_that_is_deactivated_is_activated_with_one_command() -> None:
    found = explain(build_workload("a", LATE, ("Deactivated", "too many retries"), active=False))
    assert (found.code, found.transient) == (Cause.EVICTED, PERMANENT)
    assert found.message == "Kueue has deactivated it: too many retries"
    assert found.fix.startswith("kubectl patch workload a -n ns --type merge -p ")
    assert is_listed(found)


def test_an_admission_check_that_is_not_ready_is_named() -> None:
    workload = build_workload("a")
    workload["status"] = {
        "conditions": [{"type": "QuotaReserved", "status": "True"}],
        "admissionChecks": [
            {"name": "budget", "state": "Pending", "message": "not paid yet"},
            {"name": "zone", "state": "Ready"},
        ],
    }
    found = explain(workload)
    assert found.message == "it waits in queue q: budget: not paid yet"
    assert is_listed(found)
    workload["status"]["admissionChecks"] = []
    assert (
        explain(workload).message
        == "it waits in queue q: it has quota for it, and its pod is about to start"
    )


def test_what_is_known_of_the_queue_alone() -> None:
    job = {"metadata": {"uid": "a"}}
    assert explain_queue(job, Queue("q"), "ns").code is Cause.QUEUE_MISSING
    assert explain_queue(job, Queue("q", known=False), "ns").message == "it waits in queue q"
    assert explain().message == explain(build_workload("a")).message == "it waits in queue q"


@pytest.mark.parametrize(
    ("wanted", "there", "advised"),
    [
        ("user-queue", ("research-user-queue",), "research-user-queue"),
        ("gpu", ("cpus", "gpus"), "gpus"),
        ("gpus", ("zzz",), "zzz"),
        ("gpus", ("zzz", "yyy"), "yyy"),
    ],
)
@pytest.mark.parametrize("priority", [None, "urgent"])
def test_a_queue_that_is_missing_is_another_ones_edit(
    wanted: str, there: tuple[str, ...], advised: str, priority: str | None
) -> None:
    """A Job is never taken out of the queue where there is one."""
    found = explain_queue(build_job(priority), Queue(wanted, names=there), "ns")
    named = ", ".join(sorted(there))
    assert found.message == f"queue {wanted} is not in namespace ns; there is {named}"
    assert (found.code, found.transient) == (Cause.QUEUE_MISSING, PERMANENT)
    assert found.fix == f"kubernetes: {{queue: {advised}}} in deployer.yaml"
    assert is_listed(found)
    edited = follow(found.fix, {"queue": wanted, "queue_priority": priority})
    assert (edited.queue, edited.queue_priority) == (advised, priority)


def test_where_a_namespace_has_no_queue_an_administrator_makes_it() -> None:
    found = explain_queue(build_job(None), Queue("gpus"), "ns")
    assert found.line == (
        "queue gpus is not in namespace ns (permanent): ask an administrator for LocalQueue gpus"
    )
    assert is_listed(found)


@pytest.mark.parametrize(
    ("stopped", "cause", "passes", "said"),
    [
        ("Stopped", Cause.QUEUED, None, "queue q admits nothing: as it says"),
        ("ClusterQueueIsInactive", Cause.QUEUED, None, "queue q admits nothing: as it says"),
        (
            "ClusterQueueDoesNotExist",
            Cause.QUEUE_MISSING,
            PERMANENT,
            "queue q points to ClusterQueue all, which is missing",
        ),
    ],
)
def test_a_queue_that_admits_nothing_is_told(
    stopped: str, cause: Cause, passes: bool | None, said: str
) -> None:
    found = explain(stopped=stopped)
    assert (found.code, found.transient, found.message) == (cause, passes, said)
    assert is_listed(found)


def test_a_priority_class_is_asked_for_where_kueue_makes_no_workload() -> None:
    found = explain_queue(build_job("urgnt"), Queue("q", {"status": {}}), "ns")
    assert found.line == (
        "Kueue has not seen it yet in queue q; its priority class there is urgnt: "
        "ask an administrator: kubectl get workloadpriorityclasses"
    )
    assert is_listed(found)
