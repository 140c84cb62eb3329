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
    containers = list_statuses(pod)
    return next((c["state"][state] for c in reversed(containers) if c["state"].get(state)), None)


def find_trouble(pod: Object) -> Mapping[str, Any] | None:
    """Return the status of a pod's first container in trouble; None while all is well."""
    return next((one for one in list_statuses(pod) if _is_in_trouble(one["state"])), None)


def list_statuses(pod: Object) -> list[Mapping[str, Any]]:
    """Return the statuses of a pod's containers, those of init containers first."""
    status = pod.get("status", {})
    parts = (status.get(part) for part in ("initContainerStatuses", "containerStatuses"))
    return [one for part in parts for one in part or ()]


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


def list_parents(item: Object) -> list[str]:
    """Return the uids of the objects that an object belongs to, such as a pod's Job."""
    return [one.get("uid", "") for one in item["metadata"].get("ownerReferences") or ()]


def parse_time(text: str) -> float:
    """Parse the API's time stamps into seconds since the epoch."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _is_in_trouble(state: Mapping[str, Any]) -> bool:
    waiting = state.get("waiting") or {}
    return waiting.get("reason") not in (None, *USUAL_WAITING)


def _count_one(container: Mapping[str, Any]) -> Counter[str]:
    # Extended resources have no request that differs from their limit.
    limits = container.get("resources", {}).get("limits") or {}
    return Counter({name: int(count) for name, count in limits.items() if "/" in name})
