"""An agent's status and lock files in its folder, and checks whether the folder is writable.

The kernel releases the lock at any death of the process, so no process id has to be trusted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Optional

from ..exit_codes import AgentExit
from ..settings import AgentSettings

LOCK_SECONDS = 5.0
POLL_SECONDS = 0.05
# All status texts have the same length, so that one can overwrite another in place.
BLOCK_BYTES = 4096
FULL = (errno.ENOSPC, errno.EDQUOT)
UNWRITABLE = (*FULL, errno.EROFS, errno.EACCES, errno.EPERM)
PROBE_BYTES = 4096


@dataclass(frozen=True)
class SupervisorStatus:
    """A supervisor's state: starting, running, draining, stopping or ended; times since epoch.

    `run_start` is how its last run was started: `warm`, or `cold: REASON`.
    """

    state: str
    process_id: int
    started_at: float
    agent_process_id: Optional[int] = None
    run_id: Optional[str] = None
    runs_ended: int = 0
    ended_at: Optional[float] = None
    exit_code: Optional[int] = None
    reason: str = ""
    drained: bool = False
    run_start: str = ""


class StatusFile:
    """The status on disk, replaced atomically at each change."""

    def __init__(self, settings: AgentSettings) -> None:
        self._path = settings.status_path
        self.status = SupervisorStatus("starting", os.getpid(), time.time())
        self._saved = self._save()

    def change(self, **changes: Any) -> None:
        changed = replace(self.status, **changes)
        if changed != self.status or not self._saved:
            self.status = changed
            self._saved = self._save()

    def _save(self) -> bool:
        text = json.dumps(asdict(self.status)).ljust(BLOCK_BYTES)
        temporary = f"{self._path}.new"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(temporary, self._path)
        except OSError:
            # A full disk must not end the supervisor, nor hide its end: overwrite in place.
            try:
                with open(self._path, "r+", encoding="utf-8") as file:
                    file.write(text)
                    file.truncate()
            except OSError:
                return False
        return True


def load_status(path: str) -> Optional[SupervisorStatus]:
    """Read a status file; None if there is none yet."""
    try:
        with open(path, encoding="utf-8") as file:
            return SupervisorStatus(**json.load(file))
    except (OSError, ValueError, TypeError):
        return None


def hold_lock(path: str) -> Optional[int]:
    """Lock the file for this process's lifetime; None if another supervisor holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + LOCK_SECONDS
    while time.monotonic() < deadline:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except BlockingIOError:
            time.sleep(POLL_SECONDS)  # a liveness check may hold it for a moment
    os.close(handle)
    return None


def is_locked(path: str) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY)  # its folder may be read-only
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def leave_last_words(path: str, ending: AgentExit) -> None:
    """Write why a supervisor has ended to its container's termination log, if any."""
    if not path:
        return
    with contextlib.suppress(OSError), open(path, "w", encoding="utf-8") as file:
        file.write(f"ended with exit code {ending.exit_code}: {ending.reason}\n")


# An unwritable folder: a full disk, a read-only mount, a missing permission. All of these may be
# transient, so work waits and loses nothing.


def is_unwritable(error: BaseException) -> bool:
    """Return True if an error means that a file is not writable now."""
    return isinstance(error, OSError) and error.errno in UNWRITABLE


def describe(folder: object, error: OSError) -> str:
    """Return a message that a folder is not writable now, with the reason."""
    return f"{folder} cannot be written now: {(error.strerror or str(error)).lower()}"


def find_obstacle(folder: str) -> str:
    """Write a small test file; return why the folder is not writable, empty if it is."""
    path = os.path.join(folder, f".probe-{os.getpid()}")
    try:
        with open(path, "wb") as file:
            file.write(bytes(PROBE_BYTES))
    except OSError as error:
        return describe(folder, error) if is_unwritable(error) else ""
    finally:
        with contextlib.suppress(OSError):
            os.remove(path)
    return ""
