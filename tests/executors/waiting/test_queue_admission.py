"""Why a Job waits in Kueue's queue, from what its Workload and LocalQueue say."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.executors.kubernetes.waiting.facts import Queue
from deployer.executors.kubernetes.waiting.queue_admission import explain_queue
from deployer.executors.reason import Cause, Passes, Reason
from deployer.kube.names import QUEUE_PRIORITY_LABEL
from tests.docs.pending_table import is_listed

FLAVOR = "couldn't assign flavors to pod set main: "
USED = f"{FLAVOR}insufficient unused quota for nvidia.com/gpu in flavor a100, 1 more needed"
SMALL = (
    f"{FLAVOR}insufficient quota for nvidia.com/gpu in flavor a100, previously considered podsets "
    "requests (0) + current podset request (5) > maximum capacity (4)"
)


def build_workload(name: str, message: str = "", **more: Any) -> dict[str, Any]:
    """Return the Workload of the Job with uid NAME, which no quota is reserved for."""
    waiting = {"type": "QuotaReserved", "status": "False", "message": message}
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": f"2026-01-01T00:00:0{len(name)}Z",
            "ownerReferences": [{"uid": name}],
        },
        "spec": {"queueName": "q", **more},
        "status": {"conditions": [waiting]},
    }


def explain(*workloads: dict[str, Any], uid: str = "a", stopped: str = "") -> Reason:
    """Return why a Job waits; `stopped` is Kueue's reason why its queue is not active."""
    inactive = {"type": "Active", "status": "False", "reason": stopped, "message": "as it says"}
    local = {"spec": {"clusterQueue": "all"}, "status": {"conditions": [inactive]}}
    queue = Queue("q", local if stopped else {"status": {}}, workloads)
    return explain_queue({"metadata": {"uid": uid}}, queue, "ns")


def test_its_place_is_told_by_priority_then_age() -> None:
    urgent = build_workload("urgent", priority=5)
    elsewhere = build_workload("x", queueName="other")
    found = explain(build_workload("a"), build_workload("bb"), urgent, elsewhere)
    assert (found.sentence, found.passes) == ("it is number 2 of 3 in queue q", Passes.WITH_TIME)


def test_one_that_kueue_has_moved_has_a_place_still() -> None:
    moved = build_workload("a", queueName="former")
    assert explain(moved, build_workload("bb")).sentence == "it is number 1 of 2 in queue q"


def test_what_is_needed_is_told() -> None:
    said = explain(build_workload("a", USED)).sentence
    assert said == "it is number 1 of 1 in queue q; 1 more nvidia.com/gpu needed"


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
    ],
)
def test_what_never_passes_is_told(message: str, cause: Cause, said: str) -> None:
    found = explain(build_workload("a", message))
    assert (found.cause, found.passes) == (cause, Passes.NEVER)
    assert said in found.sentence


def test_one_flavor_that_is_used_up_is_enough_to_wait_for() -> None:
    assert explain(build_workload("a", f"{SMALL}; {USED}")).passes is Passes.WITH_TIME


def test_what_is_known_of_the_queue_alone() -> None:
    job = {"metadata": {"uid": "a"}}
    assert explain_queue(job, Queue("q"), "ns").cause is Cause.QUEUE_MISSING
    assert explain_queue(job, Queue("q", known=False), "ns").sentence == "it waits in queue q"
    assert explain().sentence == "Kueue has not seen it yet in queue q"


@pytest.mark.parametrize(
    ("stopped", "cause", "passes", "said"),
    [
        ("Stopped", Cause.QUEUE_STOPPED, Passes.UNKNOWN, "queue q admits nothing: as it says"),
        (
            "ClusterQueueIsInactive",
            Cause.QUEUE_STOPPED,
            Passes.UNKNOWN,
            "queue q admits nothing: its ClusterQueue all is not active",
        ),
        (
            "ClusterQueueDoesNotExist",
            Cause.QUEUE_MISSING,
            Passes.NEVER,
            "queue q leads to ClusterQueue all, which is missing",
        ),
    ],
)
def test_a_queue_that_admits_nothing_is_told(
    stopped: str, cause: Cause, passes: Passes, said: str
) -> None:
    found = explain(stopped=stopped)
    assert (found.cause, found.passes, found.sentence) == (cause, passes, said)
    assert is_listed(found.finding())


def test_a_priority_class_that_is_missing_is_told_where_classes_may_be_read() -> None:
    job = {"metadata": {"uid": "a", "labels": {QUEUE_PRIORITY_LABEL: "urgnt"}}}

    def ask(there: frozenset[str] | None) -> Reason:
        return explain_queue(job, Queue("q", {"status": {}}, priorities=there), "ns")

    found = ask(frozenset({"urgent", "idle"}))
    assert found.line == (
        "there is no WorkloadPriorityClass urgnt; there is idle, urgent (never passes): "
        "kubernetes: {queue_priority: urgent} in deployer.yaml"
    )
    assert is_listed(found.finding())
    assert ask(None).cause is ask(frozenset({"urgnt"})).cause is Cause.QUEUED
