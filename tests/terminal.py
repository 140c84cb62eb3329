"""A terminal of a given width, and what a command draws in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from deployer.text import strip_colours

LINES = 40


def draw(
    command: Sequence[str],
    columns: int,
    folder: Path,
    environment: Mapping[str, str],
    typed: str = "",
) -> str:
    """Return all that a command wrote to its terminal, without colours; `typed` is its input."""
    ours, terminal = pty.openpty()
    os.write(ours, typed.encode())
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
    known = {name: value for name, value in environment.items() if name != "COLUMNS"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**known, "TERM": "xterm-256color"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    drawn = []
    with contextlib.suppress(OSError):  # the end, as a terminal has it
        while read := os.read(ours, 1 << 16):
            drawn.append(read)
    os.close(ours)
    process.wait()
    return strip_colours(b"".join(drawn).decode().replace("\r\n", "\n"))
