"""A short-lived cache of a cluster's objects; concurrent reads of one object share a request.

Objects that may not be read (403) are HIDDEN, or None as a list, and are requested again after a
minute.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from deployer.errors import KubeError
from deployer.executors.kubernetes.diagnose.facts import ClusterNodes, Queue, Reference
from deployer.executors.kubernetes.gpu_nodes import list_served, survey_nodes
from deployer.kube.client import Kube
from deployer.kube.objects import DEFAULT_QUEUE, KUEUE, QUEUE_LABEL, SECRET, Kind, Manifest

LIFE_SECONDS = 4.0
REFUSED_SECONDS = 60.0
SURVEY_SHARE = 20  # waits 20 times a node survey's duration: large clusters have many pods
KUEUE_VERSION = "v1beta2"  # assumed without permission to ask
HIDDEN: Manifest = {}  # an object that may not be read
EVER = float("-inf")


class View:
    """Reads a cluster; `now` is a clock in seconds. Methods raise KubeError except for a 403."""

    def __init__(self, kube: Kube, now: Callable[[], float] = time.monotonic) -> None:
        self.kube = kube
        self._now = now
        self._locks: defaultdict[Hashable, threading.Lock] = defaultdict(threading.Lock)
        self._known: dict[Hashable, Any] = {}
        self._asked_at: dict[Hashable, float] = {}
        self._old_at: dict[Hashable, float] = {}

    def get(self, kind: Kind, name: str, since: float = EVER) -> Manifest | None:
        """Return an object, for a Secret only the names of its keys; None if it is missing.

        An object may be created after a read, so only a read after `since` proves that it is
        missing.
        """
        found: Manifest | None = self._remember(
            (kind, name), lambda: self._get(kind, name), HIDDEN, since
        )
        return found

    def list_all(self, kind: Kind | None) -> list[Manifest] | None:
        if kind is None:
            return None
        found: list[Manifest] | None
        found = self._remember(kind, lambda: self.kube.list_objects(kind), None)
        return found

    def find_kueue(self, name: str) -> Kind | None:
        """Return a Kueue kind in the cluster's API version; None without Kueue."""
        version = self._remember(KUEUE, lambda: self.kube.find_version(KUEUE), KUEUE_VERSION)
        plural = f"{name.lower()}{'es' if name.endswith('s') else 's'}"
        namespaced = name in ("LocalQueue", "Workload")
        return Kind(f"{KUEUE}/{version}", name, plural, namespaced=namespaced) if version else None

    def find_missing(self, references: Iterable[Reference], since: float) -> frozenset[Reference]:
        """Return the missing references, except keys of missing objects."""
        found = (one for one in references if self._is_missing(one))
        return frozenset(one for one in found if self._is_missing(one, since))

    def read_nodes(self) -> ClusterNodes | None:
        found: ClusterNodes | None
        found = self._remember("nodes", self._survey, None, share=SURVEY_SHARE)
        return found

    def find_queue(self, job: Manifest) -> Queue | None:
        labels = job["metadata"].get("labels") or {}
        queues = self.list_all(self.find_kueue("LocalQueue"))
        found = {one["metadata"]["name"]: one for one in queues or ()}
        name = labels.get(QUEUE_LABEL) or (DEFAULT_QUEUE if DEFAULT_QUEUE in found else None)
        if not name:
            return None
        workloads = self.list_all(self.find_kueue("Workload"))
        if queues is None or workloads is None:
            return Queue(name, known=False)
        return Queue(name, found.get(name), tuple(workloads), tuple(found))

    def _is_missing(self, one: Reference, since: float = EVER) -> bool:
        found = self.get(one.kind, one.name, since)
        if not one.key:
            return found is None
        if not found:
            return False
        return one.key not in {**(found.get("data") or {}), **(found.get("binaryData") or {})}

    def _survey(self) -> ClusterNodes:
        found = survey_nodes(self.kube)
        return ClusterNodes(found.nodes, found.gpus, list_served(self.kube), found.complete)

    def _get(self, kind: Kind, name: str) -> Manifest | None:
        found = self.kube.get(kind, name)
        if found and kind == SECRET:
            return {**found, "data": dict.fromkeys(found.get("data") or {}, "")}
        return found

    def _remember(
        self,
        key: Hashable,
        ask: Callable[[], Any],
        hidden: object,
        since: float = EVER,
        share: float = 0.0,
    ) -> Any:
        """Return the cached answer, or ask again; a refusal is cached as `hidden`."""
        with self._locks[key]:
            began = self._now()
            if self._asked_at.get(key, EVER) >= since and self._old_at.get(key, EVER) > began:
                return self._known[key]
            try:
                self._known[key] = ask()
            except KubeError as error:
                if not error.forbidden:
                    raise
                self._known[key] = hidden
                self._asked_at[key], self._old_at[key] = float("inf"), began + REFUSED_SECONDS
                return hidden
            ended = self._now()
            self._asked_at[key] = began
            self._old_at[key] = max(began + LIFE_SECONDS, ended + share * (ended - began))
            return self._known[key]
