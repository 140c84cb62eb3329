"""Read files that users name, regular ones of a few megabytes or a shell's pipes; write them."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

from deployer.errors import ConfigError
from deployer.text import format_bytes

MOST_BYTES = 5_000_000
# Where a shell puts what is piped into a command, and `<(command)`.
PIPES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
KINDS = ((stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))


def read_user_file(path: Path, place: str = "") -> bytes:
    """Return a file's content; raise OSError, or ConfigError for a device or a file too large.

    `place` names it in complaints.
    """
    try:
        mode = path.stat().st_mode
    except UnicodeEncodeError as error:
        raise FileNotFoundError(errno.ENOENT, "the locale cannot express its name") from error
    except FileNotFoundError:
        if not path.is_symlink():
            raise
        said = f"is a link to {path.readlink()}, which does not exist"
        raise ConfigError(place or str(path), said, f"fix or remove it: ls -l {path}") from None
    piped = stat.S_ISFIFO(mode) and str(path).startswith(PIPES)
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or piped):
        kind = next((name for is_kind, name in KINDS if is_kind(mode)), "a device")
        raise ConfigError(place or str(path), f"is {kind}, not a file", "name a regular file")
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        said = f"is larger than {format_bytes(MOST_BYTES)}"
        raise ConfigError(place or str(path), said, "name a smaller file, or split this one")
    return content


def read_user_text(path: Path, place: str = "") -> str:
    """Return a text in UTF-8 with the line ends of Unix; raise UnicodeDecodeError, too."""
    text = read_user_file(path, place).decode("utf-8")
    return io.StringIO(text, newline=None).getvalue()


def write_user_text(path: Path, text: str) -> None:
    """Write or replace a file, whole or not at all; raise ConfigError if that fails."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        said = f"cannot be written: {(error.strerror or str(error)).lower()}"
        raise ConfigError(str(path), said, "name a file in a folder of yours") from error
