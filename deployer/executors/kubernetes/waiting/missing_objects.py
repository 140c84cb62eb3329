"""Which of the objects that waiting pods name are not there, as far as we may look."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from deployer.errors import KubeError
from deployer.executors.kubernetes.waiting.blocking import Reference
from deployer.kube.client import Kube

LOOK_LIFE_SECONDS = 15.0


class MissingObjects:
    """Looks again after a while; `now` is a clock in seconds."""

    def __init__(self, kube: Kube, now: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._now = now
        self._looked_at: dict[Reference, float] = {}
        self._missing: set[Reference] = set()

    def find(self, references: Iterable[Reference]) -> frozenset[Reference]:
        """Return those that are missing; raises KubeError."""
        wanted = set(references)
        for one in wanted:
            if self._now() - self._looked_at.get(one, float("-inf")) > LOOK_LIFE_SECONDS:
                self._look(one)
        return frozenset(self._missing & wanted)

    def _look(self, one: Reference) -> None:
        self._missing.discard(one)
        if not self._is_there(one):
            self._missing.add(one)
        self._looked_at[one] = self._now()

    def _is_there(self, one: Reference) -> bool:
        """Tell whether it is there; what we may not look at is taken to be."""
        try:
            return self._kube.get(one.kind, one.name) is not None
        except KubeError as error:
            if error.status != 403:
                raise
            return True
