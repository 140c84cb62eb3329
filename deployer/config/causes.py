"""The causes for which an agent does not start, by their names in JSON and docs/pending.md."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """What keeps an agent's pod from running; docs/pending.md has each with its remedy."""

    # What no node has, or has no room for.
    NO_SUCH_RESOURCE = "no-such-resource"
    GPUS_BUSY = "gpus-busy"
    NODES_FULL = "nodes-full"
    TAINT = "taint"
    SELECTOR = "selector"
    NODES_CLOSED = "nodes-closed"
    NODE_PRESSURE = "node-pressure"
    NODE_LOST = "node-lost"
    PRIORITY = "priority"
    DRIVER_MISSING = "driver-missing"
    # What the server refuses.
    QUOTA_USED = "quota-used"
    QUOTA_SMALL = "quota-small"
    LIMIT_RANGE = "limit-range"
    POD_SECURITY = "pod-security"
    SERVICE_ACCOUNT = "service-account"
    PRIORITY_CLASS = "priority-class"
    RUNTIME_CLASS = "runtime-class"
    REFUSED = "refused"
    # What a pod needs and is not there.
    SECRET_MISSING = "secret-missing"
    KEY_MISSING = "key-missing"
    CONFIG_MAP_MISSING = "config-map-missing"
    CLAIM_MISSING = "claim-missing"
    MADE_MISSING = "made-missing"  # one that was made for the agent, and is made again with it
    CLAIM_UNBOUND = "claim-unbound"
    CLAIM_ELSEWHERE = "claim-elsewhere"
    VOLUME = "volume"
    # Images.
    IMAGE_NAME = "image-name"
    IMAGE_NOT_FOUND = "image-not-found"
    IMAGE_REFUSED = "image-refused"
    IMAGE_UNREACHABLE = "image-unreachable"
    PULL_SECRET_MISSING = "pull-secret-missing"
    PROGRAM_MISSING = "program-missing"
    # Who brings nodes.
    SCALING_UP = "scaling-up"
    AUTOSCALER_LIMIT = "autoscaler-limit"
    AUTOSCALER_REFUSED = "autoscaler-refused"
    STOCKOUT = "stockout"
    CLOUD_QUOTA = "cloud-quota"
    # Who lets Jobs begin.
    QUEUED = "queued"
    QUEUE_MISSING = "queue-missing"
    QUEUE_STOPPED = "queue-stopped"
    QUEUE_QUOTA = "queue-quota"
    SUSPENDED = "suspended"
    GATED = "gated"
    # The cluster's own words are all that is known.
    OTHER = "other"
