"""Reads objects: conditions, the state of containers, requests, times; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

ENDED_PHASES = ("Succeeded", "Failed")
# What a container waits for while all is well.
USUAL_WAITING = ("ContainerCreating", "PodInitializing")
Object = Mapping[str, Any]


def find_condition(item: Object, kind: str, status: str = "True") -> Mapping[str, Any] | None:
    """Return an object's condition if it has this status."""
    conditions = item.get("status", {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == kind and c["status"] == status), None)


def find_container_state(pod: Object, state: str) -> Mapping[str, Any] | None:
    """Return the state of a pod's containers if one is `running`, `waiting` or `terminated`."""
    status = pod.get("status", {})
    containers = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    return next((c["state"][state] for c in reversed(containers) if c["state"].get(state)), None)


def find_trouble(pod: Object) -> Mapping[str, Any] | None:
    """Return what a pod's first container in trouble waits for; None while all is well."""
    status = pod.get("status", {})
    containers = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    waiting = (container["state"].get("waiting") for container in containers)
    return next((w for w in waiting if w and w.get("reason") not in USUAL_WAITING), None)


def count_requests(pod: Object) -> Counter[str]:
    """Return how many of each extended resource, such as nvidia.com/gpu, a pod asks for.

    As the scheduler counts: the containers together, or the largest init container.
    """
    spec = pod["spec"]
    total: Counter[str] = sum(map(_count_one, spec.get("containers") or ()), Counter())
    for container in spec.get("initContainers") or ():
        total |= _count_one(container)
    return total


def created_at(item: Object) -> float:
    """Return when an object was created, in seconds since the epoch."""
    return parse_time(item["metadata"]["creationTimestamp"])


def parse_time(text: str) -> float:
    """Parse the API's time stamps into seconds since the epoch."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _count_one(container: Mapping[str, Any]) -> Counter[str]:
    # Extended resources have no request that differs from their limit.
    limits = container.get("resources", {}).get("limits") or {}
    return Counter({name: int(count) for name, count in limits.items() if "/" in name})
