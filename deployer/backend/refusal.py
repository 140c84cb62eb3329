"""A refused request: an HTTP status and one sentence, which the SDK shows as it is."""

from __future__ import annotations

import errno
import sqlite3


class Refusal(Exception):
    """Refuse a request for good with a 4xx status.

    Never 409: the SDK retries it. Passing troubles are 503 or 507 and never raised as this, but for
    a `wandb.init` that has to wait until it is known what becomes of it.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class NoSpace(OSError):
    """The disk has no room for what is announced; the client tries again later."""


def is_full(error: BaseException) -> bool:
    """Tell whether an error says that there is no room on the disk."""
    if isinstance(error, OSError):
        return isinstance(error, NoSpace) or error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def describe_passing(error: BaseException) -> str:
    """Say what is in the way now and may be gone when it is tried again."""
    if isinstance(error, NoSpace):
        return f"the disk of the backend has too little room, more may help: {error}"
    if is_full(error):
        return "the disk of the backend is full; what waits is written once there is room again"
    return f"the backend's storage is away, trying again may help: {error}"


def not_found(what: str) -> Refusal:
    """Return the refusal for something that is not there, or not this user's."""
    return Refusal(404, f"{what} not found")
