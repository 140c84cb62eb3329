"""Who is logged in: random tokens in memory, each standing for a key that is checked every time.

A link's code stands for a key, too, once and for some minutes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from deployer.backend.db.database import Connection
from deployer.backend.db.users.accounts import Caller, caller_of_hash, hash_key

LINK_SECONDS = 15 * 60
MOST_LINKS = 1000
SESSION_SECONDS = 30 * 24 * 3600  # a month: the page is a tool of every day on one's own machine


@dataclass(frozen=True)
class Session:
    """A log-in: the hash of the key it was made with, and its end by the monotonic clock."""

    key_hash: str
    ends_at: float


class Sessions:
    """The log-ins of one server process; a restart ends them all."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._by_token: dict[str, Session] = {}
        self._links: dict[str, Session] = {}

    def begin(self, key: str) -> str:
        """Return a new token that stands for a key; the caller has checked the key."""
        return self._begin(hash_key(key))

    def make_link(self, key: str) -> str:
        """Return a code that begins a session once, within LINK_SECONDS."""
        now = self._monotonic()
        fresh = [(c, s) for c, s in list(self._links.items()) if s.ends_at > now]
        self._links = dict(fresh[1 - MOST_LINKS :])
        code = secrets.token_urlsafe(24)
        self._links[code] = Session(hash_key(key), now + LINK_SECONDS)
        return code

    def begin_by_link(self, code: str) -> str | None:
        """Return a new token for a code, which is good no more; None for one that is not good."""
        link = self._links.pop(code, None)
        if link is None or link.ends_at <= self._monotonic():
            return None
        return self._begin(link.key_hash)

    def _begin(self, key_hash: str) -> str:
        now = self._monotonic()
        self._by_token = {t: s for t, s in list(self._by_token.items()) if s.ends_at > now}
        token = secrets.token_urlsafe(32)
        self._by_token[token] = Session(key_hash, now + SESSION_SECONDS)
        return token

    def find_caller(self, db: Connection, token: str) -> Caller | None:
        """Return whose log-in a token is, None once it has ended or its key is gone."""
        session = self._by_token.get(token)
        if session is None or session.ends_at <= self._monotonic():
            return None
        return caller_of_hash(db, session.key_hash)

    def end(self, token: str) -> None:
        """Forget a token."""
        self._by_token.pop(token, None)
