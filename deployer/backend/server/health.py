"""The health of a backend, asked over HTTP with a timeout of a few seconds."""

from __future__ import annotations

import os
import urllib.request
from enum import StrEnum
from http.client import HTTPException
from pathlib import Path

PROBE_SECONDS = 3.0
ROOM_BYTES = 1 << 20  # with less, the next write may fail


class Health(StrEnum):
    """What a server reports, or what a failed request shows."""

    READY = "ready"
    DISK_FULL = "disk full"
    HUNG = "hung"  # it accepts connections and does not answer
    AWAY = "away"  # no process accepts connections


def probe(url: str, seconds: float = PROBE_SECONDS) -> Health:
    """Ask the server at an address for its health."""
    # A proxy from the user's environment cannot reach this machine's own addresses.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/healthz", timeout=seconds) as reply:
            said = reply.read().decode()
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)  # of a URLError
        return Health.HUNG if isinstance(reason, TimeoutError) else Health.AWAY
    return Health.DISK_FULL if said == Health.DISK_FULL else Health.READY


def disk_is_full(folder: Path) -> bool:
    """Return True if the disk of a folder is full."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < ROOM_BYTES
