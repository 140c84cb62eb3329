"""A control group with little memory, in which the kernel kills what takes more; needs root."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
END_SECONDS = 20.0


@contextmanager
def small_memory(limit_bytes: int) -> Iterator[Path]:
    """Make a control group, removed at the end; yield its file that takes process ids.

    Raises PermissionError where the tests do not run as root.
    """
    if os.geteuid() != 0:
        raise PermissionError("a memory limit needs root: sudo make test-kubernetes")
    first = (GROUPS / "memory").is_dir()
    group = (GROUPS / "memory" if first else GROUPS) / f"deployer-{uuid.uuid4().hex[:8]}"
    if not first:
        (GROUPS / "cgroup.subtree_control").write_text("+memory")
    group.mkdir()
    (group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(limit_bytes))
    try:
        yield group / "cgroup.procs"
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    """Remove a group once its last process is gone."""
    deadline = time.monotonic() + END_SECONDS
    while group.exists() and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            group.rmdir()
        time.sleep(0.05)
    assert not group.exists(), f"processes are left in {group}"
