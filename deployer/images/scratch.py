"""Folders for secrets and contexts of builds, which do not outlive a command that was killed.

Each holds a locked file while its command lives. The next command finds it unlocked and removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "deployer-scratch-"
UNFINISHED = "deployer-new-"  # without a lock yet, so nobody may take it for abandoned
LOCK = ".lock"


@contextmanager
def open_scratch() -> Iterator[Path]:
    """Give an empty folder that its owner alone can read, and remove it again."""
    remove_abandoned()
    made = Path(tempfile.mkdtemp(prefix=UNFINISHED))  # mode 0700
    lock = os.open(made / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = made.rename(made.with_name(made.name.replace(UNFINISHED, PREFIX)))
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
    finally:
        os.close(lock)


def remove_abandoned() -> None:
    """Remove the folders of commands that are no more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            lock = os.open(folder / LOCK, os.O_RDWR)
        except OSError:  # somebody else's, or going
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # its command lives
        finally:
            os.close(lock)
