"""Which answers of a server are worth asking again: one rule for every client; pure.

The supervisor, which imports nothing of deployer, has a copy; a test holds it to this one.
"""

from __future__ import annotations

NO_ANSWER = 0
OWN_VERDICT = -1  # no server was asked: we know, so that no other answer can come
# Refused before anything was done: good also for what cannot be repeated. At 507 a disk is full.
BUSY_STATUSES = (429, 503, 507)
HOPELESS_STATUSES = (501, 505)  # the server knows no such thing, however often it is asked
PASSING_STATUSES = (
    NO_ANSWER,
    408,
    429,
    # Proxies have codes of their own, up to Cloudflare's 530.
    *(status for status in range(500, 600) if status not in HOPELESS_STATUSES),
)
# gRPC's words, as Google has them. After these nobody knows whether it was done.
UNCERTAIN_REASONS = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "CANCELLED")
PASSING_REASONS = frozenset((*UNCERTAIN_REASONS, "RESOURCE_EXHAUSTED", "ABORTED"))


def is_passing(status: int) -> bool:
    """Tell whether an HTTP status may be another one soon; 0 is no answer at all."""
    return status in PASSING_STATUSES
