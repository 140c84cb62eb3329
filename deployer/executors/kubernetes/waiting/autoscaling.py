"""What those who bring nodes say of a pod: the cluster autoscaler and Karpenter; pure.

Their events' reasons and sources are fixed; why a group of nodes is left out stands in the
message alone. The words are those of kubernetes/autoscaler (cluster-autoscaler/core/scaleup/
orchestrator/skippedreasons.go, processors/status/eventing_scale_up_processor.go), of GKE's own
autoscaler (cloud.google.com/kubernetes-engine/docs/how-to/cluster-autoscaler-visibility) and of
kubernetes-sigs/karpenter (pkg/controllers/provisioning/scheduling).
"""

from __future__ import annotations

import re

from deployer.executors.kubernetes.waiting.facts import Event, Facts
from deployer.executors.reason import Cause, Passes, Reason

AUTOSCALER = "cluster-autoscaler"
KARPENTER = "karpenter"
SOURCES = (AUTOSCALER, KARPENTER)
TRIGGERED = "TriggeredScaleUp"
NOT_TRIGGERED = "NotTriggerScaleUp"
FAILED = "FailedScaleUp"
NOMINATED = "Nominated"  # Karpenter: a node is on its way for it
UNPLACED = "FailedScheduling"  # Karpenter's, which the scheduler's is told from by its source
OF_PLACING = (TRIGGERED, NOT_TRIGGERED, FAILED, NOMINATED, UNPLACED)  # over once it has a node

MAXIMUM = re.compile(
    r"max node group size reached|max cluster \S+ limit reached|max limit reached|"
    r"exceeds? limits? for nodepool",
    re.IGNORECASE,
)
BACKOFF = re.compile(r"in backoff after failed scale-up|not ready for scale-up", re.IGNORECASE)
CLOUD_QUOTA = re.compile(
    r"QUOTA_EXCEEDED|quota exceeded|exceeded quota|VcpuLimitExceeded|LimitExceeded", re.IGNORECASE
)
SOLD_OUT = re.compile(
    r"out of resources|STOCKOUT|RESOURCE_POOL_EXHAUSTED|insufficient.?capacity|"
    r"ZoneResourcePoolExhausted|AllocationFailed|SkuNotAvailable",
    re.IGNORECASE,
)


def explain_autoscaling(facts: Facts) -> Reason | None:
    """Return what was said last by those who bring nodes; None if nobody said anything."""
    said = [event for event in facts.events if event.source in SOURCES]
    if not said:
        # A cloud's own autoscaler may have another name; these reasons are no one else's.
        said = [event for event in facts.events if event.reason in (FAILED, NOT_TRIGGERED)]
    return _explain(said[-1]) if said else None


def is_refused_for_good(reason: Reason | None) -> bool:
    """Tell whether no group of nodes that could grow would take the pod."""
    return reason is not None and reason.cause is Cause.AUTOSCALER_REFUSED and reason.hopeless


def _explain(event: Event) -> Reason | None:
    message = event.message.strip()
    if event.reason in (TRIGGERED, NOMINATED):
        said = "a node is being added for it"
        return Reason(Cause.SCALING_UP, said, Passes.WITH_TIME)
    if event.reason == FAILED or (event.reason == UNPLACED and SOLD_OUT.search(message)):
        return _explain_failure(message)
    if event.reason not in (NOT_TRIGGERED, UNPLACED):
        return None
    if MAXIMUM.search(message):
        said = f"the autoscaler has reached its maximum: {message}"
        remedy = "wait until others end, or ask for a larger maximum of the node group"
        return Reason(Cause.AUTOSCALER_LIMIT, said, Passes.WITH_TIME, remedy)
    if BACKOFF.search(message):
        said = f"the autoscaler tries again after a while: {message}"
        return Reason(Cause.STOCKOUT, said, Passes.WITH_TIME)
    if CLOUD_QUOTA.search(message):
        return _explain_failure(message)
    said = f"the autoscaler has no kind of node for it: {message}"
    return Reason(Cause.AUTOSCALER_REFUSED, said, Passes.NEVER, "deployer doctor")


def _explain_failure(message: str) -> Reason:
    if CLOUD_QUOTA.search(message) and not SOLD_OUT.search(message):
        said = f"the cloud's quota is used up: {message}"
        return Reason(Cause.CLOUD_QUOTA, said, Passes.UNKNOWN, "ask the cloud for a larger quota")
    said = f"the cloud has no such node now: {message}"
    remedy = "another zone, another GPU, or on-demand instead of spot nodes"
    return Reason(Cause.STOCKOUT, said, Passes.WITH_TIME, remedy)
