"""Why a Job is not let in: it is suspended, by a queue or by somebody; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.executors.kubernetes.waiting.facts import Facts
from deployer.executors.reason import Cause, Passes, Reason
from deployer.kube.names import QUEUE_LABEL
from deployer.kube.objects import find_condition

Manifest = Mapping[str, Any]


def is_suspended(job: Manifest) -> bool:
    """Tell whether a Job makes no pods because it may not."""
    return bool(find_condition(job, "Suspended") or job.get("spec", {}).get("suspend"))


def explain_suspension(facts: Facts) -> Reason:
    """Return why a suspended Job waits."""
    job = facts.job
    name = job["metadata"]["name"]
    queue = (job["metadata"].get("labels") or {}).get(QUEUE_LABEL)
    if queue:
        said = f"it waits in queue {queue}"
        look = f"kubectl describe localqueue {queue} -n {facts.namespace}"
        return Reason(Cause.QUEUED, said, Passes.UNKNOWN, look)
    change = '{"spec": {"suspend": false}}'
    remedy = f"kubectl patch job {name} -n {facts.namespace} -p '{change}'"
    return Reason(Cause.SUSPENDED, "its Job is suspended", Passes.UNKNOWN, remedy)
