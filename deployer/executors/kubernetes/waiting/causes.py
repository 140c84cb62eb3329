"""The newest warning about each object of a namespace, which may say why a pod does not run."""

from __future__ import annotations

from typing import Any

from deployer.errors import KubeError
from deployer.executors.kubernetes.waiting.reasons import NO_NODE, Manifest
from deployer.kube.client import Kube
from deployer.kube.kinds import EVENT


def read_causes(kube: Kube) -> dict[str, str]:
    """Return warnings by object; nothing where events may not be read."""
    try:
        return newest_causes(kube.list_objects(EVENT, field_selector="type=Warning"))
    except KubeError as error:
        if error.status != 403:
            raise
        return {}


def newest_causes(events: list[dict[str, Any]]) -> dict[str, str]:
    """Return the newest warning about each object, by the object's name.

    That no node can be had says more than the scheduler's, which stands in the pod's condition.
    """

    def when(event: Manifest) -> tuple[bool, str, int]:
        # Of several within a second the longest says most.
        at = str(event.get("lastTimestamp") or event.get("eventTime") or "")
        return event.get("reason") == NO_NODE, at, len(event.get("message") or "")

    return {
        event["involvedObject"]["name"]: f"{event.get('reason', '')}: {event.get('message', '')}"
        for event in sorted(events, key=when)
    }
