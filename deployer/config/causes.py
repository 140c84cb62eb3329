"""The causes for which an agent does not start, by their names in JSON and docs/pending.md."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """What keeps an agent's pod from running, where there is a fix; docs/pending.md has each."""

    # Nodes.
    NO_SUCH_GPU = "no-such-gpu"
    GPUS_BUSY = "gpus-busy"
    TAINT = "taint"
    SELECTOR = "selector"
    DRIVER_MISSING = "driver-missing"
    STOCKOUT = "stockout"
    # Rules of the server, and what the pod names.
    QUOTA = "quota"
    POD_SECURITY = "pod-security"
    OBJECT_MISSING = "object-missing"
    CLAIM_UNBOUND = "claim-unbound"
    # Images.
    IMAGE = "image"
    PROGRAM_MISSING = "program-missing"
    # Queues, and who ends pods.
    QUEUE_MISSING = "queue-missing"
    QUEUED = "queued"
    SUSPENDED = "suspended"
    EVICTED = "evicted"
    # The cluster's own words are all that is known.
    OTHER = "other"
