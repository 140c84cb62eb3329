"""The files of a data folder for its server and its clients: lock, address, key."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from pathlib import Path
from typing import TextIO

from deployer.errors import BackendError

ADDRESS_FILE = "address.json"
KEY_FILE = "key"
LOCK_FILE = "lock"
LOG_FILE = "backend.log"
DISMISSED_FILE = "stopped"  # exists from `backend down` until the next start

PROBE_SECONDS = 1.0  # `is_served` holds the lock for an instant, which a starting server waits out

OTHER_FOLDER = "name another folder: --data FOLDER"


class FolderLock:
    """Holds a folder for one process; the kernel releases it when the process dies.

    A server writes its process id into the lock file. Any other command leaves the file empty, so
    that `stop_backend` does not end it.
    """

    def __init__(self, data: Path, serving: bool = False) -> None:
        self.data = data
        self._said = str(os.getpid()) if serving else ""

    def __enter__(self) -> FolderLock:
        make_data_folder(self.data)
        self._stream = open_private(self.data / LOCK_FILE)
        deadline = time.monotonic() + PROBE_SECONDS
        while not _try_lock(self._stream):
            if time.monotonic() > deadline:
                self._stream.close()
                raise BackendError(
                    f"{self.data} is already being served", "deployer backend status"
                )
            time.sleep(PROBE_SECONDS / 20)
        self._stream.truncate(0)
        self._stream.write(self._said)
        self._stream.flush()
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def make_data_folder(data: Path) -> None:
    """Make the folder if it does not exist; raises BackendError."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (FileExistsError, NotADirectoryError) as error:
        raise BackendError(f"{data}: a file has this name", OTHER_FOLDER) from error
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BackendError(f"{data}: cannot create this folder: {why}", OTHER_FOLDER) from error


def is_served(data: Path) -> bool:
    if not (data / LOCK_FILE).exists():
        return False
    with (data / LOCK_FILE).open() as stream:  # which may be read-only
        return not _try_lock(stream, fcntl.LOCK_SH)


def read_server_id(data: Path) -> int | None:
    if not is_served(data):
        return None
    said = (data / LOCK_FILE).read_text()
    return int(said) if said.isdecimal() else None


def _try_lock(stream: TextIO, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(stream, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def read_url(data: Path) -> str | None:
    """Return the folder's current or last address; None if it was never served."""
    try:
        return str(json.loads((data / ADDRESS_FILE).read_text())["url"])
    except (OSError, ValueError):
        return None


def read_key(data: Path) -> str:
    try:
        return (data / KEY_FILE).read_text().strip()
    except OSError as error:
        raise BackendError(f"no key in {data}: {error.strerror}", "deployer backend up") from error


def dismiss(data: Path) -> None:
    """Record that a user stopped the server, so that no watcher restarts it."""
    with contextlib.suppress(OSError):  # a server can be stopped even if the disk is full
        (data / DISMISSED_FILE).touch(0o600)


def is_dismissed(data: Path) -> bool:
    """Return True if a user stopped the folder's server."""
    return (data / DISMISSED_FILE).exists()


def recall(data: Path) -> None:
    with contextlib.suppress(OSError):
        (data / DISMISSED_FILE).unlink(missing_ok=True)


def write_key(data: Path, key: str) -> None:
    write_private(data / KEY_FILE, key + "\n")


def open_private(path: Path) -> TextIO:
    """Open a file for appending; a new one has mode 0600."""
    return open(path, "a", opener=lambda name, flags: os.open(name, flags, 0o600))


def write_private(path: Path, text: str) -> None:
    """Write a file atomically, with mode 0600 from its first byte."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    os.replace(partial, path)
