"""The reasons why an agent does not start, by their names in JSON and docs/pending.md."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """Why an agent's pod does not run, if there is a fix; docs/pending.md lists them all."""

    # Nodes.
    NO_SUCH_GPU = "no-such-gpu"
    GPUS_BUSY = "gpus-busy"
    TAINT = "taint"
    SELECTOR = "selector"
    DRIVER_MISSING = "driver-missing"
    STOCKOUT = "stockout"
    # Rules of the server, and objects that the pod references.
    QUOTA = "quota"
    POD_SECURITY = "pod-security"
    OBJECT_MISSING = "object-missing"
    CLAIM_UNBOUND = "claim-unbound"
    # Images.
    IMAGE = "image"
    PROGRAM_MISSING = "program-missing"
    # Queues, and evictions.
    QUEUE_MISSING = "queue-missing"
    QUEUED = "queued"
    SUSPENDED = "suspended"
    EVICTED = "evicted"
    # Only the cluster's own text is known.
    OTHER = "other"
