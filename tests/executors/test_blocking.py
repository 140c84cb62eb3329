"""What no waiting mends is told from what may pass."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.executors.base import Blocked
from deployer.executors.kubernetes.gpu_drivers.shortage import has_no_such_gpu
from deployer.executors.kubernetes.waiting.blocking import Reference, find_blocker, list_references
from deployer.kube.kinds import CLAIM, CONFIG_MAP, SECRET
from tests.executors.gpu_drivers.objects import build_node, build_pod, summarise_one
from tests.executors.test_agent_objects import (
    CREATING,
    NO_IMAGE,
    PENDING,
    RUNNING,
    UNSCHEDULABLE,
    build_object,
    condition,
    container,
)

INVALID_IMAGE = {
    **PENDING,
    **container(waiting={"reason": "InvalidImageName", "message": "couldn't parse"}),
}
USED_UP = "exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4"
TOO_MUCH = "exceeded quota: q, requested: cpu=8, used: cpu=0, limited: cpu=4"
LIMIT_RANGE = "maximum cpu usage per Container is 1, but limit is 4"
NO_PRIORITY = "no PriorityClass with name gold was found"
NEEDED = Reference(SECRET, "token")


def judge(job: dict[str, Any], pod: dict[str, Any] | None, event: str = "", **more: Any) -> Any:
    """Return what blocks an agent whose Job has this newest warning."""
    made = build_object("Pod", pod) if pod is not None else None
    if made is not None:
        variable = {"name": "T", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}}
        made["spec"] = {"containers": [{"name": "agent", "env": [variable]}]}
    whole = build_object("Job", job)
    facts = {"missing": (), "no_such_gpu": False, **more}
    found = find_blocker(whole, made, {whole["metadata"]["name"]: event}, **facts)
    return found and found.cause


@pytest.mark.parametrize("said", [LIMIT_RANGE, NO_PRIORITY, TOO_MUCH])
def test_a_pod_that_the_server_forbids_is_refused(said: str) -> None:
    event = f'FailedCreate: Error creating: pods "abc-1-x" is forbidden: {said}'
    assert judge({}, None, event) is Blocked.REFUSED


@pytest.mark.parametrize(
    "event",
    [
        "",
        f'FailedCreate: Error creating: pods "abc-1-x" is forbidden: {USED_UP}',
        "FailedCreate: Error creating: Internal error occurred: failed calling webhook",
        "BackoffLimitExceeded: Job has reached the specified backoff limit",
    ],
)
def test_what_may_pass_blocks_nothing(event: str) -> None:
    assert judge({}, None, event) is None


@pytest.mark.parametrize("status", [PENDING, UNSCHEDULABLE, NO_IMAGE, CREATING])
def test_a_pod_that_waits_is_blocked_by_what_is_missing_alone(status: dict[str, Any]) -> None:
    assert judge({}, status) is None
    assert judge({}, status, missing={NEEDED}) is Blocked.MISSING_OBJECT
    assert judge({}, status, missing={Reference(CONFIG_MAP, "token")}) is None
    assert judge({}, status, no_such_gpu=True) is Blocked.NO_SUCH_GPU


def test_a_name_that_no_image_can_have() -> None:
    assert judge({}, INVALID_IMAGE) is Blocked.IMAGE


def test_who_runs_or_is_suspended_is_not_blocked() -> None:
    assert judge({}, RUNNING, missing={NEEDED}) is None
    assert judge(condition("Suspended"), UNSCHEDULABLE, no_such_gpu=True) is None


def test_a_pod_needs_what_it_does_not_call_optional() -> None:
    spec = {
        "containers": [
            {
                "name": "agent",
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "b", "key": "k"}}},
                    {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "envFrom": [{"configMapRef": {"name": "d"}}],
            }
        ],
        "volumes": [
            {"name": "v", "secret": {"secretName": "e"}},
            {"name": "w", "configMap": {"name": "f", "optional": True}},
            {"name": "x", "persistentVolumeClaim": {"claimName": "g"}},
            {"name": "y", "projected": {"sources": [{"secret": {"name": "h"}}]}},
            {"name": "z", "emptyDir": {}},
        ],
    }
    assert set(list_references(spec)) == {
        Reference(SECRET, "b"),
        Reference(CONFIG_MAP, "d"),
        Reference(SECRET, "e"),
        Reference(CLAIM, "g"),
        Reference(SECRET, "h"),
    }


def test_a_gpu_that_is_in_use_or_is_still_to_be_counted_may_come() -> None:
    product = {"nvidia.com/gpu.product": "A100"}
    counted = summarise_one(build_node("n1", product, {"nvidia.com/gpu": 4}))
    bare = summarise_one(build_node("n2", product, {}))
    selector = {"nodeSelector": product}
    fits = build_pod(gpus={"nvidia.com/gpu": 4}, phase="Pending", **selector)
    too_many = build_pod(gpus={"nvidia.com/gpu": 8}, phase="Pending", **selector)
    other = build_pod(
        gpus={"nvidia.com/gpu": 1},
        phase="Pending",
        nodeSelector={"nvidia.com/gpu.product": "H100"},
    )
    assert not has_no_such_gpu([counted], fits)
    assert not has_no_such_gpu([bare], fits)
    assert has_no_such_gpu([], fits)
    assert has_no_such_gpu([counted], too_many)
    assert not has_no_such_gpu([counted, bare], too_many)
    assert has_no_such_gpu([counted, bare], other)
    assert not has_no_such_gpu([], build_pod(phase="Pending"))
