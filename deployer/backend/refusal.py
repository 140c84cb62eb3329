"""How the backend says no: an HTTP status and one sentence, which the SDK shows as it is."""

from __future__ import annotations


class Refusal(Exception):
    """Refuse a request for good with a 4xx status.

    Never 409: the SDK retries it. Passing troubles are 503 and never raised as this.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def not_found(what: str) -> Refusal:
    """Return the refusal for something that is not there, or not this user's."""
    return Refusal(404, f"{what} not found")
