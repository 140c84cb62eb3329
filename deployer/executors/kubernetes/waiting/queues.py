"""Kueue's queues and Workloads of a namespace, as far as they may be read."""

from __future__ import annotations

import time
from collections.abc import Callable

from deployer.errors import KubeError
from deployer.executors.kubernetes.waiting.facts import Queue
from deployer.kube.client import Kube
from deployer.kube.kinds import Kind, Manifest
from deployer.kube.names import KUEUE, QUEUE_LABEL, QUEUE_PRIORITY_LABEL

LOOK_LIFE_SECONDS = 4.0
PRIORITY = "WorkloadPriorityClass"
IN_NAMESPACES = ("LocalQueue", "Workload")


class Queues:
    """Looks again after a while; `now` is a clock in seconds."""

    def __init__(self, kube: Kube, now: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._now = now
        self._looked_at = float("-inf")
        self._queues: list[Manifest] | None = None
        self._workloads: list[Manifest] | None = None
        self._priorities: frozenset[str] | None = None
        self._priorities_looked_at = float("-inf")

    def find(self, job: Manifest) -> Queue | None:
        """Return the queue of a Job; None for one that is in none. Raises KubeError."""
        labels = job["metadata"].get("labels") or {}
        name = labels.get(QUEUE_LABEL)
        if not name:
            return None
        self._look()
        if self._queues is None or self._workloads is None:
            return Queue(name, known=False)
        queues = {one["metadata"]["name"]: one for one in self._queues}
        priorities = self._name_priorities() if labels.get(QUEUE_PRIORITY_LABEL) else None
        return Queue(
            name,
            queues.get(name),
            tuple(self._workloads),
            names=tuple(queues),
            priorities=priorities,
        )

    def _name_priorities(self) -> frozenset[str] | None:
        """Return the names of Kueue's priority classes, which belong to no namespace."""
        if self._priorities_looked_at < self._looked_at:
            there = self._list(self._kube.find_version(KUEUE), PRIORITY)
            named = (one["metadata"]["name"] for one in there or ())
            self._priorities = None if there is None else frozenset(named)
            self._priorities_looked_at = self._looked_at
        return self._priorities

    def _look(self) -> None:
        if self._now() - self._looked_at < LOOK_LIFE_SECONDS:
            return
        version = self._kube.find_version(KUEUE)
        self._queues = self._list(version, "LocalQueue")
        self._workloads = self._list(version, "Workload")
        self._looked_at = self._now()

    def _list(self, version: str | None, kind: str) -> list[Manifest] | None:
        """Return all objects of a kind; None where they may not be read, or Kueue is not there."""
        if version is None:
            return None
        try:
            return self._kube.list_objects(build_kind(version, kind))
        except KubeError as error:
            if not error.forbidden:
                raise
            return None


def build_kind(version: str, name: str) -> Kind:
    """Return a kind of Kueue's as the cluster's own version of it has it."""
    plural = f"{name.lower()}{'es' if name.endswith('s') else 's'}"
    return Kind(f"{KUEUE}/{version}", name, plural, namespaced=name in IN_NAMESPACES)
