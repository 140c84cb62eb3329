"""Why a Job waits in Kueue's queue, from what its Workload and LocalQueue say."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.executors.kubernetes.diagnose.facts import Queue
from deployer.executors.kubernetes.diagnose.queue import explain_queue
from deployer.findings import PERMANENT, TRANSIENT, Finding
from deployer.kube.names import QUEUE_PRIORITY_LABEL
from tests.docs.pending_table import is_listed
from tests.executors.edits import follow
from tests.sections import parse_cluster

FLAVOR = "couldn't assign flavors to pod set main: "
USED = f"{FLAVOR}insufficient unused quota for nvidia.com/gpu in flavor a100, 1 more needed"
SMALL = (
    f"{FLAVOR}insufficient quota for nvidia.com/gpu in flavor a100, previously considered podsets "
    "requests (0) + current podset request (5) > maximum capacity (4)"
)
TOPOLOGY = 'topology "default" doesn\'t allow to fit any of 1 pod(s)'
TAINT = "untolerated taint {team vision NoSchedule <nil>} in flavor spot"
PREEMPTED = "Preempted to accommodate a workload (UID: 1, JobUID: 2) due to prioritization"
LATE = "Exceeded the PodsReady timeout ns/a"
# pkg/scheduler/scheduler.go and pkg/controller/core/workload_controller.go of Kueue 0.9 to 0.19.
PASSING = [
    "",
    USED,
    f"{USED}. Pending the preemption of 1 workload(s)",
    f"{FLAVOR}flavor h100 doesn't match node affinity, {TOPOLOGY}. Pending the preemption of 1 "
    "workload(s)",
    f"{USED}. Preempting 1 workload(s) failed, will retry.",
    "Workload has overlapping preemption targets with another workload",
    "Workload has overlapping preemption targets with another workload, but will fit after these "
    "preemptions complete",
    "Workload no longer fits after processing another workload",
    "Workload skipped because its preemption calculations were invalidated by another workload",
    "waiting for all admitted workloads to be in PodsReady condition",
    "Workload is pending evaluation in the scheduling queue",
]
# Those two, pkg/workload/resources.go, pkg/scheduler/flavorassigner and
# pkg/cache/scheduler/tas_flavor_snapshot.go.
UNKNOWN = [
    "Workload namespace doesn't match ClusterQueue selector",
    "workload namespace doesn't match ClusterQueue selector",
    "ClusterQueue all is inactive",
    "ClusterQueue all is stopped",
    "ClusterQueue all not found",
    "ClusterQueue all doesn't exist",
    "ClusterQueue all is terminating or missing",
    "LocalQueue q is stopped",
    "LocalQueue q is inactive",
    "The workload has failed admission checks",
    "resources didn't satisfy LimitRange constraints: [podset main: cpu: exceeds the maximum]",
    "Failed to admit workload: etcdserver: request timed out",
    f"{FLAVOR}flavor a100 not found",
    f"{FLAVOR}{TAINT}",
    f"{FLAVOR}{TOPOLOGY}",
    # Of several flavors one may yet do.
    f"{FLAVOR}flavor a100 doesn't match node affinity, flavor h100 not found",
    f"{FLAVOR}flavor a100 doesn't match node affinity, {TOPOLOGY}",
    f"{SMALL}, {TOPOLOGY}",
    f"{SMALL}; {FLAVOR}flavor h100 not found",
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


def explain_small(resource: str, most: str) -> str:
    """Return what Kueue says where a queue has too little of a resource in all."""
    return SMALL.replace("nvidia.com/gpu", resource).replace("(4)", f"({most})")


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


def test_its_place_is_told_by_priority_then_age() -> None:
    urgent = build_workload("urgent", priority=5)
    elsewhere = build_workload("x", queueName="other")
    found = explain(build_workload("a"), build_workload("bb"), urgent, elsewhere)
    assert (found.message, found.transient) == ("it is number 2 of 3 in queue q", TRANSIENT)


def test_one_that_kueue_has_moved_has_a_place_still() -> None:
    moved = build_workload("a", queueName="former")
    assert explain(moved, build_workload("bb")).message == "it is number 1 of 2 in queue q"


def test_what_is_needed_is_told() -> None:
    said = explain(build_workload("a", USED)).message
    assert said == "it is number 1 of 1 in queue q; 1 more nvidia.com/gpu needed"


@pytest.mark.parametrize("message", PASSING)
def test_what_is_known_to_pass_is_a_place_in_the_queue(message: str) -> None:
    found = explain(build_workload("a", message), build_workload("bb"))
    assert found.message.startswith("it is number 1 of 2 in queue q")
    assert (found.code, found.transient) == (Cause.QUEUED, TRANSIENT)
    assert is_listed(found)


@pytest.mark.parametrize("message", UNKNOWN)
def test_what_is_not_known_is_told_in_kueues_own_words(message: str) -> None:
    found = explain(build_workload("a", message), build_workload("bb"))
    assert found.message == f"queue q does not admit it: {message}"
    assert (found.code, found.transient) == (Cause.QUEUED, None)
    assert found.fix == "kubectl describe workload a -n ns"
    assert is_listed(found)


@pytest.mark.parametrize(
    ("reason", "message", "said"),
    [
        ("Preempted", PREEMPTED, "it gave way to one of higher priority"),
        ("PodsReadyTimeout", LATE, "its pod did not start in time"),
    ],
)
def test_an_eviction_that_passes_is_told_beside_the_place(
    reason: str, message: str, said: str
) -> None:
    """Kueue repeats the eviction's message until it has tried the Workload again."""
    for now in (message, USED):
        found = explain(build_workload("a", now, (reason, message)))
        assert found.message.startswith(f"it is number 1 of 1 in queue q; {said}")
        assert found.transient is TRANSIENT
    found = explain(build_workload("a", UNKNOWN[0], (reason, message)))
    assert found.message == f"queue q does not admit it: {UNKNOWN[0]}"
    assert found.transient is None


def test_an_eviction_that_is_not_known_is_told_in_kueues_own_words() -> None:
    message = "Evicted due to AdmissionCheck in Retry state: budget"
    found = explain(build_workload("a", message, ("AdmissionCheck", message)))
    assert found.message == f"queue q does not admit it: {message}"
    assert found.transient is None


@pytest.mark.parametrize(
    ("message", "cause", "said"),
    [
        (SMALL, Cause.QUEUE_QUOTA, "queue q has 4 nvidia.com/gpu of a100 in all"),
        (
            f"{FLAVOR}resource nvidia.com/mig-1g.5gb unavailable in ClusterQueue",
            Cause.QUEUE_QUOTA,
            "queue q has no nvidia.com/mig-1g.5gb at all",
        ),
        (f"{FLAVOR}flavor a100 doesn't match node affinity", Cause.SELECTOR, "its flavor is a100"),
        (f"{SMALL}, {TAINT}", Cause.QUEUE_QUOTA, "of a100 in all"),
        (f"{SMALL}, flavor h100 doesn't match node affinity", Cause.QUEUE_QUOTA, "of a100 in all"),
        (
            # Until Kueue 0.14.
            f"{FLAVOR}insufficient quota for cpu in flavor a100, request > maximum capacity "
            "(5 > 4)",
            Cause.QUEUE_QUOTA,
            "queue q has 4 cpu of a100 in all",
        ),
    ],
)
def test_what_never_passes_is_told(message: str, cause: Cause, said: str) -> None:
    found = explain(build_workload("a", message))
    assert (found.code, found.transient) == (cause, PERMANENT)
    assert said in found.message
    assert is_listed(found)


@pytest.mark.parametrize(
    ("resource", "most", "edited"),
    [
        ("cpu", "1500m", {"cpu": "1500m"}),
        ("cpu", "4", {"cpu": "4"}),
        ("memory", "8Gi", {"memory": "8Gi"}),
        ("nvidia.com/gpu", "4", {"gpu": {"count": 4}}),
        ("nvidia.com/mig-1g.5gb", "2", {"gpu": {"count": 2}}),
    ],
)
def test_asking_for_what_a_queue_has_is_an_edit_that_is_accepted(
    resource: str, most: str, edited: dict[str, Any]
) -> None:
    found = explain(build_workload("a", explain_small(resource, most)))
    section = {"queue": "q", "queue_priority": "urgent"}
    assert follow(found.fix, section) == parse_cluster({**section, **edited})


def test_what_only_a_template_asks_for_has_no_edit() -> None:
    found = explain(build_workload("a", explain_small("ephemeral-storage", "10Gi")))
    assert found.fix == "ask for at most 10Gi ephemeral-storage"
    assert is_listed(found)


def test_one_flavor_that_is_used_up_is_enough_to_wait_for() -> None:
    assert explain(build_workload("a", f"{SMALL}; {USED}")).transient is TRANSIENT


def test_a_flavor_that_is_too_small_for_one_resource_is_of_no_use_with_more_of_another() -> None:
    """Kueue gives a reason for each resource of a flavor."""
    cpu = "insufficient unused quota for cpu in flavor a100, 2 more needed"
    found = explain(build_workload("a", f"{explain_small('nvidia.com/gpu', '4')}, {cpu}"))
    assert found.transient is None
    assert cpu in found.message


def test_what_is_known_of_the_queue_alone() -> None:
    job = {"metadata": {"uid": "a"}}
    assert explain_queue(job, Queue("q"), "ns").code is Cause.QUEUE_MISSING
    assert explain_queue(job, Queue("q", known=False), "ns").message == "it waits in queue q"
    assert explain().message == "Kueue has not seen it yet in queue q"


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


@pytest.mark.parametrize("priority", [None, "urgent"])
def test_the_queue_is_left_with_its_priority_where_there_is_none(priority: str | None) -> None:
    found = explain_queue(build_job(priority), Queue("gpus"), "ns")
    assert found.message == "queue gpus is not in namespace ns"
    assert (found.code, found.transient) == (Cause.QUEUE_MISSING, PERMANENT)
    assert is_listed(found)
    edited = follow(found.fix, {"queue": "gpus", "queue_priority": priority})
    assert (edited.queue, edited.queue_priority) == (None, None)


def test_a_queue_that_leads_nowhere_is_another_ones_edit_if_there_is_another() -> None:
    lost = {"type": "Active", "status": "False", "reason": "ClusterQueueDoesNotExist"}
    local = {"spec": {"clusterQueue": "all"}, "status": {"conditions": [lost]}}

    def ask(*names: str) -> Finding:
        return explain_queue(build_job("urgent"), Queue("gpus", local, names=names), "ns")

    assert ask("gpus").fix == "ask an administrator for ClusterQueue all"
    found = ask("gpus", "cpus", "gpus-2")
    assert found.fix == "kubernetes: {queue: gpus-2} in deployer.yaml"
    assert all(is_listed(one) for one in (found, ask("gpus")))
    edited = follow(found.fix, {"queue": "gpus", "queue_priority": "urgent"})
    assert (edited.queue, edited.queue_priority) == ("gpus-2", "urgent")


@pytest.mark.parametrize("there", [frozenset({"urgent", "idle"}), frozenset[str]()])
def test_another_priority_or_none_leaves_the_job_in_its_queue(there: frozenset[str]) -> None:
    queue = Queue("q", {"status": {}}, priorities=there)
    found = explain_queue(build_job("urgnt"), queue, "ns")
    assert found.code is Cause.PRIORITY_CLASS
    edited = follow(found.fix, {"queue": "q", "queue_priority": "urgnt"})
    assert (edited.queue, edited.queue_priority) == ("q", "urgent" if there else None)


@pytest.mark.parametrize(
    ("stopped", "cause", "passes", "said"),
    [
        ("Stopped", Cause.QUEUE_STOPPED, None, "queue q admits nothing: as it says"),
        (
            "ClusterQueueIsInactive",
            Cause.QUEUE_STOPPED,
            None,
            "queue q admits nothing: its ClusterQueue all is not active",
        ),
        (
            "ClusterQueueDoesNotExist",
            Cause.QUEUE_MISSING,
            PERMANENT,
            "queue q leads to ClusterQueue all, which is missing",
        ),
    ],
)
def test_a_queue_that_admits_nothing_is_told(
    stopped: str, cause: Cause, passes: bool | None, said: str
) -> None:
    found = explain(stopped=stopped)
    assert (found.code, found.transient, found.message) == (cause, passes, said)
    assert is_listed(found)


def test_a_priority_class_that_is_missing_is_told_where_classes_may_be_read() -> None:
    job = build_job("urgnt")

    def ask(there: frozenset[str] | None) -> Finding:
        return explain_queue(job, Queue("q", {"status": {}}, priorities=there), "ns")

    found = ask(frozenset({"urgent", "idle"}))
    assert found.line == (
        "there is no WorkloadPriorityClass urgnt; there is idle, urgent (never passes): "
        "kubernetes: {queue_priority: urgent} in deployer.yaml"
    )
    assert is_listed(found)
    assert ask(None).code is ask(frozenset({"urgnt"})).code is Cause.QUEUED
