"""Who brings nodes is heard: the cluster autoscaler and Karpenter, by their events."""

from __future__ import annotations

import pytest

from deployer.config.causes import Cause
from deployer.findings import PERMANENT
from tests.executors.diagnose.bench import FULL, KARPENTER, SCALER, find, say, unscheduled

# As each autoscaler writes its events: no cloud is reached by these tests.
AUTOSCALERS = [
    (SCALER, "TriggeredScaleUp", "pod triggered scale-up: [{g 0->1 (max: 3)}]", "scaling-up"),
    (
        SCALER,
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: 1 max node group size reached, 2 Insufficient cpu",
        "autoscaler-limit",
    ),
    (
        SCALER,
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 1 in backoff after "
        "failed scale-up",
        "stockout",
    ),
    (
        SCALER,
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: 2 node(s) didn't match Pod's node affinity/selector",
        "gpus-busy",  # the scheduler's sentence says more
    ),
    (
        SCALER,
        "FailedScaleUp",
        "Node scale up in zones us-central1-a associated with this pod failed: GCE_STOCKOUT. Pod "
        "is at risk of not being scheduled.",
        "stockout",
    ),
    (
        SCALER,
        "FailedScaleUp",
        "Node scale up in zones us-central1-a associated with this pod failed: GCE quota exceeded.",
        "cloud-quota",
    ),
    (KARPENTER, "Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p", "scaling-up"),
    (
        KARPENTER,
        "FailedScheduling",
        'Failed to schedule pod, all available instance types exceed limits for nodepool: "gpu"',
        "autoscaler-limit",
    ),
    (
        KARPENTER,
        "FailedScheduling",
        "Failed to schedule pod, InsufficientCapacityError: with fleet error(s)",
        "stockout",
    ),
]


@pytest.mark.parametrize(("source", "reason", "message", "cause"), AUTOSCALERS)
def test_who_brings_nodes_is_heard(source: str, reason: str, message: str, cause: str) -> None:
    found = find(unscheduled(FULL), say(reason, message, source))
    assert found
    assert found.code == cause


def test_karpenters_word_is_told_from_the_schedulers() -> None:
    said = 'Failed to schedule pod, incompatible with nodepool "gpu", no instance type satisfied'
    strange = unscheduled("nothing that is known")
    found = find(strange, say("FailedScheduling", said, KARPENTER))
    assert found
    assert (found.code, found.transient) == (Cause.AUTOSCALER_REFUSED, PERMANENT)
    found = find(strange, say("FailedScheduling", said, "default-scheduler"))
    assert found
    assert found.code is Cause.OTHER
