"""Pods that wait for a cloud's nodes, by events as its autoscaler writes them."""

from __future__ import annotations

from typing import Any

from deployer.config.causes import Cause
from tests.cluster.waiting.pending_cases import TIME, UNKNOWN, Case, on

SCALER, KARPENTER = "cluster-autoscaler", "karpenter"


def scaled(source: str, reason: str, message: str) -> dict[str, Any]:
    """Return the part of a case about whose pod an autoscaler writes an event."""
    return {**on("nowhere"), "event": (source, reason, message)}


CLOUD_CASES = [
    Case(
        "scaling",
        Cause.OTHER,
        UNKNOWN,
        "TriggeredScaleUp: pod triggered scale-up",
        **scaled(SCALER, "TriggeredScaleUp", "pod triggered scale-up: [{g 0->1 (max: 3)}]"),
    ),
    Case(
        "maximum",
        Cause.SELECTOR,
        UNKNOWN,
        "; cluster-autoscaler: pod didn't trigger scale-up: 1 max node group size reached",
        **scaled(
            SCALER,
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 max node group size reached",
        ),
    ),
    Case(
        "stockout",
        Cause.STOCKOUT,
        TIME,
        "the cloud has no such node now",
        **scaled(
            SCALER,
            "FailedScaleUp",
            "Node scale up in zones us-central1-a associated with "
            "this pod failed: GCE out of resources. Pod is at risk of not being scheduled.",
        ),
    ),
    Case(
        "cloud-quota",
        Cause.STOCKOUT,
        UNKNOWN,
        "the cloud's quota is used up",
        **scaled(
            SCALER,
            "FailedScaleUp",
            "Node scale up in zones us-central1-a associated with "
            "this pod failed: GCE quota exceeded. Pod is at risk of not being scheduled.",
        ),
    ),
    Case(
        "nominated",
        Cause.OTHER,
        UNKNOWN,
        "Nominated: Pod should schedule on: nodeclaim/gpu-x7k2p",
        **scaled(KARPENTER, "Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p"),
    ),
    Case(
        "karpenters-limit",
        Cause.SELECTOR,
        UNKNOWN,
        "exceed limits for nodepool",
        **scaled(
            KARPENTER,
            "FailedScheduling",
            "Failed to schedule pod, all available instance "
            'types exceed limits for nodepool: "gpu"',
        ),
    ),
]
