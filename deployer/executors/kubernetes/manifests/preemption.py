"""Whether a Job's pods run on nodes that are taken away, and lose their checkpoints then; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deployer.executors.kubernetes.manifests.fields import Manifest
from deployer.executors.kubernetes.manifests.job import find_container, outlives_pod
from deployer.kube.names import QUEUE_LABEL, QUEUE_PRIORITY_LABEL

SPOT = re.compile(r"(?<!non-)\b(spot|preemptible)\b", re.IGNORECASE)


def warn_about_spot(job: Manifest, pools: str = "") -> str:
    """Say which setting is missing if each preemption starts a run again; empty if none does.

    `pools` names spot pools that the pods run on, where more is known than the Job says.
    """
    pod, container = job["spec"]["template"]["spec"], find_container(job)
    spot = pools or next((word for word in _list_words(job, pod) if SPOT.search(word)), "")
    if not spot or container is None or outlives_pod(pod["volumes"], container["volumeMounts"]):
        return ""
    return (
        f"agents run on spot nodes ({spot}) and no volume `checkpoints` outlives their pods: each "
        "preemption starts the run again from nothing; in deployer.yaml, under kubernetes:, "
        "volumes: [{name: checkpoints, pvc: CLAIM}] keeps the checkpoints"
    )


def _list_words(job: Manifest, pod: Manifest) -> Iterator[str]:
    """Yield what chooses the nodes: labels, taints, priority classes and queues."""
    chosen = (pod.get("nodeSelector") or {}).items()
    yield from (f"{key}={value}" for key, value in chosen if value != "false")
    for one in pod.get("tolerations") or ():
        yield f"{one.get('key', '')}={one.get('value', '')}".rstrip("=")
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for one in term.get("matchExpressions", ()):
            if one["operator"] in ("In", "Exists"):
                yield f"{one['key']}={','.join(one.get('values') or ())}".rstrip("=")
    yield pod.get("priorityClassName") or ""
    labels = job["metadata"].get("labels") or {}
    yield from (labels.get(name, "") for name in (QUEUE_LABEL, QUEUE_PRIORITY_LABEL))
