"""Log-ins of the page, which outlive the server's process: random tokens, of which hashes are kept.

Each stands for the key that it was made with, and ends with it.
"""

from __future__ import annotations

import secrets

from deployer.backend.db.rows import Connection
from deployer.backend.db.users.accounts import Caller, caller_of_hash, hash_key

# A month: the page is a tool of every day on one's own machine.
SESSION_SECONDS = 30 * 24 * 3600


def begin_session(db: Connection, key_hash: str, now: float) -> str:
    """Return a new token that stands for the key of a hash; forget those that have ended."""
    token = secrets.token_urlsafe(32)
    db.execute("DELETE FROM sessions WHERE ends_at <= ?", (now,))
    db.execute(
        "INSERT INTO sessions (hash, key_hash, ends_at) VALUES (?, ?, ?)",
        (hash_key(token), key_hash, now + SESSION_SECONDS),
    )
    return token


def caller_of_session(db: Connection, token: str, now: float) -> Caller | None:
    """Return whose log-in a token is, None once it has ended or its key is gone."""
    found = db.execute(
        "SELECT key_hash FROM sessions WHERE hash = ? AND ends_at > ?", (hash_key(token), now)
    ).fetchone()
    return caller_of_hash(db, found["key_hash"]) if found else None


def end_session(db: Connection, token: str) -> None:
    """Forget a token."""
    db.execute("DELETE FROM sessions WHERE hash = ?", (hash_key(token),))
