"""Which of the objects that waiting pods name are not there, as far as we may look."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from deployer.errors import KubeError
from deployer.executors.kubernetes.waiting.references import Reference
from deployer.kube.client import Kube
from deployer.kube.kinds import SECRET, Kind, Manifest

LOOK_LIFE_SECONDS = 4.0
HIDDEN: Manifest = {}  # an object that may not be looked at


class MissingObjects:
    """Looks again after a while, but where it was refused; `now` is a clock in seconds.

    An object may be written after a look: only a look after `since` shows that it is missing.
    """

    def __init__(self, kube: Kube, now: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._now = now
        self._looked_at: dict[tuple[Kind, str], float] = {}
        self._objects: dict[tuple[Kind, str], Manifest | None] = {}

    def find(self, references: Iterable[Reference], since: float) -> frozenset[Reference]:
        """Return those that are missing; no key of an object that is missing itself.

        Raises KubeError.
        """
        found = (one for one in references if self._is_missing(one))
        return frozenset(one for one in found if self._is_missing(one, since))

    def read(self, kind: Kind, name: str, since: float = float("-inf")) -> Manifest | None:
        """Return an object, of a Secret only the names of its keys; None if it is not to be seen.

        Raises KubeError.
        """
        return self._look(kind, name, since) or None

    def _is_missing(self, one: Reference, since: float = float("-inf")) -> bool:
        found = self._look(one.kind, one.name, since)
        if not one.key:
            return found is None
        if not found:
            return False
        return one.key not in {**(found.get("data") or {}), **(found.get("binaryData") or {})}

    def _look(self, kind: Kind, name: str, since: float) -> Manifest | None:
        """Return an object: None if it is not there, HIDDEN where we may not look."""
        known = (kind, name)
        if self._objects.get(known) is HIDDEN:
            return HIDDEN
        looked_at = self._looked_at.get(known, float("-inf"))
        if looked_at < max(since, self._now() - LOOK_LIFE_SECONDS):
            began = self._now()
            self._objects[known] = self._get(kind, name)
            self._looked_at[known] = began
        return self._objects[known]

    def _get(self, kind: Kind, name: str) -> Manifest | None:
        try:
            found = self._kube.get(kind, name)
        except KubeError as error:
            if not error.forbidden:
                raise
            return HIDDEN
        if found and kind == SECRET:
            return {**found, "data": dict.fromkeys(found.get("data") or {}, "")}
        return found
