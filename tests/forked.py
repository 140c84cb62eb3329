"""`deployer` and its backend in processes that need not load themselves: forks of the test's.

Each takes half a second of a core to load. Arguments, folder, environment, input, output and exit
code are those of `python -m MODULE`; the name in the list of processes is not.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from threading import Thread
from typing import NoReturn

import psutil

import deployer.cli
import deployer.executors.local
from deployer.__main__ import main
from deployer.backend.server import foreground

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
    _be(main, ["deployer", *words], folder, environment, ends)


def fork_backend(
    words: Sequence[str], environment: Mapping[str, str]
) -> tuple[psutil.Process, int]:
    """Start a backend that need not load itself; return it and the open end of what it prints."""
    said, says = os.pipe()
    process_id = os.fork()
    if process_id == 0:
        nothing = os.open(os.devnull, os.O_RDONLY)
        _be(foreground.main, ["foreground", *words], Path.cwd(), environment, (nothing, says, 2))
    os.close(says)
    return psutil.Process(process_id), said


def start_backend(
    words: Sequence[str], environment: Mapping[str, str]
) -> tuple[psutil.Process, int]:
    """Start a backend as a user's is; return it and the open end of what it prints."""
    said, says = os.pipe()
    command = [sys.executable, "-m", foreground.__name__, *words]
    process = psutil.Popen(command, stdin=subprocess.DEVNULL, stdout=says, env=environment)
    os.close(says)
    return process, said


def _be(
    program: Callable[[], None],
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    ends: Sequence[int],
) -> NoReturn:
    code = 1
    try:
        for number, end in enumerate(ends):
            os.dup2(end, number)
        _let_go_of_files()
        gc.freeze()  # a channel of gRPC that some test has left would abort whoever collects it
        logging.getLogger().handlers.clear()
        # What pytest has put in their place belongs to the process that was forked.
        sys.stdin, sys.stdout, sys.stderr = (
            io.TextIOWrapper(open(number, mode), line_buffering=number == 2)  # noqa: SIM115
            for number, mode in enumerate(("rb", "wb", "wb"))
        )
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = list(words)
        program()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _let_go_of_files() -> None:
    """Hold nothing open that the test's process has open: sockets, ends of pipes, locked files.

    Each number stays taken. Python's objects of these files live on here, and one that is collected
    would close whatever had got its number meanwhile.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with suppress(OSError):  # the list's own
                os.fstat(int(name))
                os.dup2(nothing, int(name))


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
