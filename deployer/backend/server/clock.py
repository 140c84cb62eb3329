"""The server's wall clock, which a test can move while the server runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path


def wall_clock(offset_file: str | None) -> Callable[[], float]:
    """Return a clock of seconds since the epoch; a file may hold seconds to add to it."""
    if not offset_file:
        return time.time
    path = Path(offset_file)

    def now() -> float:
        with contextlib.suppress(OSError, ValueError):
            return time.time() + float(path.read_text())
        return time.time()

    return now
