"""When agents and runs were last heard of, by a monotonic clock.

Kept in memory on purpose: after a restart everybody counts as heard of at that moment, so the
server's own downtime makes no agent look silent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

# A process is heard of by its file stream alone; an agent speaks for its runs, too.
Kind = Literal["agent", "run", "process"]


class Presence:
    """Seconds of silence for each agent and run, by a monotonic clock."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._started = monotonic()
        self._lock = threading.Lock()
        self._last: dict[tuple[Kind, int], float] = {}

    def seen(self, kind: Kind, row_id: int) -> None:
        """Note a sign of life."""
        with self._lock:
            self._last[kind, row_id] = self._monotonic()

    def forget(self, seconds: float) -> None:
        """Forget who was silent for longer, which then counts from the server's start."""
        since = self._monotonic() - seconds
        with self._lock:
            for key in [key for key, last in self._last.items() if last < since]:
                del self._last[key]

    def silence_seconds(self, kind: Kind, row_id: int) -> float:
        """Return how long nothing was heard, the server's own start counting as a sign."""
        return self._monotonic() - self._last.get((kind, row_id), self._started)

    def count(self, kind: Kind, seconds: float) -> int:
        """Return how many were heard of in the last seconds."""
        since = self._monotonic() - seconds
        with self._lock:
            return sum(told == kind and last >= since for (told, _), last in self._last.items())
