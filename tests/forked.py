"""`deployer` in a process of its own that need not load itself: a fork of the test's process.

A command takes half a second of a core to load. Its arguments, folder, environment, input, output
and exit code are those of `python -m deployer`; its name in the list of processes is not.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from threading import Thread
from typing import NoReturn

import deployer.cli
import deployer.executors.local
from deployer.__main__ import main

PATIENCE_SECONDS = 180.0


def run_forked(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `deployer` until it has ended and nobody holds its output open."""
    load_commands()
    outputs = [os.pipe(), os.pipe()]
    with tempfile.TemporaryFile() as given:
        given.write(text.encode())
        given.seek(0)
        process_id = os.fork()
        if process_id == 0:
            ends = (given.fileno(), *(end for _, end in outputs))
            be_deployer(words, folder, environment, ends)
    for _, end in outputs:
        os.close(end)
    said = _read_to_the_end([end for end, _ in outputs], process_id)
    _, status = os.waitpid(process_id, 0)
    return subprocess.CompletedProcess(words, os.waitstatus_to_exitcode(status), *said)


@cache
def load_commands() -> None:
    """Load each command, and what most of them use, once; else every fork would load its own."""
    for room in (deployer.cli, deployer.executors.local):
        for module in walk_packages(room.__path__, f"{room.__name__}."):
            import_module(module.name)


def be_deployer(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], ends: Sequence[int]
) -> NoReturn:
    """Run a command as the main program of this process, a fork, and end with its exit code."""
    code = 1
    try:
        for number, end in enumerate(ends):
            os.dup2(end, number)
        # What pytest has put in their place belongs to the process that was forked.
        sys.stdin, sys.stdout, sys.stderr = (
            io.TextIOWrapper(open(number, mode), line_buffering=number == 2)  # noqa: SIM115
            for number, mode in enumerate(("rb", "wb", "wb"))
        )
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["deployer", *words]
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _read_to_the_end(ends: Sequence[int], process_id: int) -> list[str]:
    """Read the outputs of a process side by side; kill it and fail if they do not end."""
    said = [""] * len(ends)

    def read(place: int) -> None:
        with open(ends[place], encoding="utf-8") as file:
            said[place] = file.read()

    readers = [Thread(target=read, args=(place,), daemon=True) for place in range(len(ends))]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(PATIENCE_SECONDS)
        if reader.is_alive():
            os.kill(process_id, signal.SIGKILL)
            os.waitpid(process_id, 0)
            raise AssertionError(f"no end after {PATIENCE_SECONDS:.0f} seconds: {said}")
    return said
