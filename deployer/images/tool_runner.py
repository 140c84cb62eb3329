"""Runs a program, and kills it with all its descendants once the caller is gone.

Started as a file: `python tool_runner.py PROGRAM ARGUMENT…`. The caller holds the other end of its
standard input, which closes even if SIGKILL ends the caller. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

GRACE_SECONDS = 5  # between SIGTERM and SIGKILL


def main(words: Sequence[str]) -> int:
    """Run a program in its own process group; return its exit code like a shell."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, process_group=0)
    threading.Thread(target=_end_when_alone, args=(process,), daemon=True).start()
    code = process.wait()
    return code if code >= 0 else 128 - code


def _end_when_alone(process: subprocess.Popen[bytes]) -> None:
    os.read(sys.stdin.fileno(), 1)
    _signal(process.pid, signal.SIGTERM)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _signal(process.pid, signal.SIGKILL)


def _signal(group: int, which: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, which)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
