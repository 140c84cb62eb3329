"""What autoscalers say of a pod: the cluster autoscaler and Karpenter; pure."""

from __future__ import annotations

import re

from deployer.config.causes import Cause
from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.diagnose.facts import Event, Facts
from deployer.findings import Finding

TRIGGERED = "TriggeredScaleUp"
NOT_TRIGGERED = "NotTriggerScaleUp"
FAILED = "FailedScaleUp"
NOMINATED = "Nominated"  # Karpenter: a node is on its way for it
UNPLACED = "FailedScheduling"  # Karpenter's, and each scheduler's
KARPENTER_SAYS = "Failed to schedule pod, "
OF_PLACING = (TRIGGERED, NOT_TRIGGERED, FAILED, NOMINATED, UNPLACED)  # over once it has a node
WITHOUT_WARNING = (TRIGGERED, NOT_TRIGGERED, NOMINATED)
FAILURES = (rules.SOLD_OUT, rules.CLOUD_QUOTA)
LIMITS = (rules.NODES_AT_MOST, rules.BACKOFF, rules.CLOUD_QUOTA, rules.NO_GROUP)


def explain_autoscaling(facts: Facts) -> Finding | None:
    """Explain a pod by the newest event of an autoscaler; None if there is none.

    Every cloud runs one under a name of its own: they are known by their reasons and words.
    """
    said = [event for event in facts.events if _is_of_autoscaler(event)]
    return _explain(said[-1]) if said else None


def is_refused_for_good(found: Finding | None) -> bool:
    """Return True if no node group that could grow would take the pod."""
    return found is not None and found.code == Cause.AUTOSCALER_REFUSED


def _is_of_autoscaler(event: Event) -> bool:
    if event.reason == UNPLACED:
        return event.message.startswith(KARPENTER_SAYS)
    return event.reason in OF_PLACING


def _explain(event: Event) -> Finding | None:
    words = event.message.strip()
    if event.reason in (TRIGGERED, NOMINATED):
        return rules.NODE_COMES.found()
    sold_out = event.reason == UNPLACED and re.search(rules.SOLD_OUT.pattern, words)
    if event.reason == FAILED or sold_out:
        return rules.match_first(FAILURES, words) or rules.SOLD_OUT.found(words=words)
    if event.reason in (NOT_TRIGGERED, UNPLACED):
        return rules.match_first(LIMITS, words)
    return None
