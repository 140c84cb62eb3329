"""What a pod waits for, as tests write it."""

from __future__ import annotations

from deployer.config.causes import Cause
from deployer.errors import Finding


def pending(cause: Cause, message: str, transient: bool | None = None, fix: str = "") -> Finding:
    """Return why a pod does not run."""
    return Finding(cause, "", message, fix, transient=transient)
