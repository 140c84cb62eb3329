"""A folder that cannot be written now: a full disk, a read-only mount, a right that is missing.

All of these may pass, so work waits for them and loses nothing.
"""

import contextlib
import errno
import os

FULL = (errno.ENOSPC, errno.EDQUOT)
UNWRITABLE = (*FULL, errno.EROFS, errno.EACCES, errno.EPERM)
PROBE_BYTES = 4096


def is_unwritable(error: BaseException) -> bool:
    """Return True if an error says that a file cannot be written now."""
    return isinstance(error, OSError) and error.errno in UNWRITABLE


def describe(folder: object, error: OSError) -> str:
    """Say that a folder cannot be written now, and why."""
    return f"{folder} cannot be written now: {(error.strerror or str(error)).lower()}"


def find_obstacle(folder: str) -> str:
    """Write a small file; say why that is not possible now, else return an empty string."""
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
