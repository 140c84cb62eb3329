"""Links that sign in: random codes in memory, each good once and for some minutes."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass

from deployer.backend.db.accounts import hash_key

LINK_SECONDS = 15 * 60
MOST_LINKS = 1000


@dataclass(frozen=True)
class Link:
    """What a code stands for: the hash of a key; and its end by the monotonic clock."""

    key_hash: str
    ends_at: float


class Links:
    """The codes of one server process; a restart ends them all."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._by_code: dict[str, Link] = {}

    def make(self, key: str) -> str:
        """Return a code that stands for a key once, within LINK_SECONDS; the key was checked."""
        now = self._monotonic()
        code = secrets.token_urlsafe(24)
        with self._lock:
            fresh = [(c, s) for c, s in self._by_code.items() if s.ends_at > now]
            self._by_code = dict(fresh[1 - MOST_LINKS :])
            self._by_code[code] = Link(hash_key(key), now + LINK_SECONDS)
        return code

    def take(self, code: str) -> str | None:
        """Return the hash of a code's key; the code is good no more. None if it was not good."""
        with self._lock:
            link = self._by_code.pop(code, None)
        return link.key_hash if link and link.ends_at > self._monotonic() else None
