"""Keeps an agent's warm parent, and puts the stand-in for `python` on the agent's PATH."""

import contextlib
import os
import pkgutil
import shutil
import signal
import time
from typing import Any, Container, Dict, Mapping, Sequence

from ..environment import agent_command
from ..host.child_task import run_task
from ..host.processes import RESTORED_SIGNALS, send_signal, spawn
from ..host.unwritable import is_unwritable
from ..settings import Settings

# A parent that is killed is started again, but not for ever.
MOST_STARTS = 5
PRELOAD_SECONDS = 120.0
LOOK_SECONDS = 5.0  # at the script
AGENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# As fork_server.py and stand_in.py have them.
SOCKET, STARTING, START = "warm.sock", "warm.starting", "start"
COLD, OVER = "warm.cold", "warm.over"
FIRST_START = "cold: no parent yet"
SHEBANG_BYTES = 127  # Linux before 5.1
# Where a path cannot stand behind `#!`: a shell script whose first line Python takes for a string.
SHELL_START = "#!/bin/sh\n''''exec '{python}' -IS \"$0\" \"$@\" #'''\n"
# The parent's program. A run is forked in the middle of it.
PROGRAM = """\
import sys
sys.path[:] = [{above!r}, *filter(None, sys.path)]
from {package}.warm.ending import Ending
ending = Ending()
from {package}.warm.fork_server import prepare_run
del sys.path[0]
program = prepare_run({folder!r}, {packages!r}, ending)
try:
    program()
    ending.note(0)
except SystemExit as error:
    ending.note(error.code)
    raise
"""


class WarmParent:
    """The process from which an agent's runs are forked, if its script can be preloaded for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reason = ""  # why there is no parent
        self._environment: Dict[str, str] = {}
        self._python = ""
        self._packages: Sequence[str] = ()
        self._process, self._lifeline = 0, -1
        self._started_at, self._starts = 0.0, 0

    def start_agent(self, environment: Mapping[str, str], log: int, program: str = "") -> int:
        """Start the agent, and its parent beside it; return the agent's process id.

        `program` is the sweep's, relative to this folder.
        """
        led = self.lead(environment, program)
        self.tend(())
        return spawn(agent_command(self._settings), led, log)

    def lead(self, environment: Mapping[str, str], program: str) -> Dict[str, str]:
        """Return the environment of an agent whose `python` is the stand-in, if one can be."""
        self._environment = dict(environment)
        path = environment.get("PATH", os.defpath)
        self._python, self._reason = "", ""
        if not self._settings.warm:
            return self._environment
        self.let_go()  # of what an earlier supervisor has left
        for name in (COLD, OVER):
            with contextlib.suppress(OSError):
                os.unlink(self._get_path(name))
        python = shutil.which("python", path=path) or ""
        self._reason = find_reason(self._settings) or ("" if python else "no python on PATH")
        if not self._reason:
            self._packages, self._reason = self._read_script(program)
        folder = self._get_path("bin")
        try:
            if not self._reason:
                os.makedirs(folder, exist_ok=True)
                write_stand_in(os.path.join(folder, "python"), python)
        except OSError as error:
            self._reason = str(error)
        if self._reason:
            return self._environment
        self._python = python
        return {**self._environment, "PATH": os.pathsep.join([folder, path])}

    def _read_script(self, program: str) -> Any:
        """Read the script in a child, so that its parser does not stay in our memory."""

        def read() -> object:
            from .script_text import read_script

            return read_script(program, os.curdir, self._settings.warm_packages)

        if not program:
            return (), "the sweep names no program"
        return run_task(read, LOOK_SECONDS) or ((), f"{program} cannot be read")

    def tend(self, ended: Container[int]) -> None:
        """Start the parent if there is none and can be one; `ended` are processes that are not."""
        if self._process in ended:
            self.let_go()
        if not self._python:
            return
        self._reason = self._find_cold() or self._reason
        if self._reason:
            self._python = ""
            self.let_go()
        elif not self._process:
            self._starts += 1
            try:
                self._start()
            except (OSError, NotImplementedError) as error:
                self.let_go()
                if is_unwritable(error):  # which may pass
                    self._starts -= 1
                else:
                    self._python, self._reason = "", str(error)

    def _find_cold(self) -> str:
        """Return why the agent stays cold from now on, empty if it does not."""
        hangs = self._process and os.path.exists(self._get_path(STARTING))
        if hangs and time.monotonic() - self._started_at > PRELOAD_SECONDS:
            return f"preloading took more than {PRELOAD_SECONDS:.0f} s"
        if not self._process and self._starts >= MOST_STARTS:
            return "the parent has ended too often"
        return self._read(COLD)

    def read_start(self) -> str:
        """Return how the last run was started: `warm`, or `cold` and why; empty if not known."""
        if not self._settings.warm:
            return ""
        if not self._python:  # what an earlier agent has left in the folder is about its own run
            return f"cold: {self._reason}"
        return self._read(START)

    def let_go(self) -> None:
        """Let the parent end, at once if it has no run."""
        if self._process and os.path.exists(self._get_path(STARTING)):
            send_signal(self._process, signal.SIGKILL)  # it would preload to the end first
        if self._lifeline >= 0:
            os.close(self._lifeline)
        self._process, self._lifeline = 0, -1
        for name in (SOCKET, STARTING):
            with contextlib.suppress(OSError):
                os.unlink(self._get_path(name))

    def _get_path(self, name: str) -> str:
        return os.path.join(self._settings.folder, name)

    def _read(self, name: str) -> str:
        try:
            with open(self._get_path(name), encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""

    def _start(self) -> None:
        with open(self._get_path(STARTING), "w", encoding="utf-8"):
            pass
        above, package = os.path.split(AGENT)  # of a zip file, maybe
        folder, packages = self._settings.folder, list(self._packages)
        code = PROGRAM.format(above=above, package=package, folder=folder, packages=packages)
        # Not into the runs' log.
        log = os.open(self._get_path("warm.log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        reader, self._lifeline = os.pipe()
        try:
            self._process = os.posix_spawn(
                self._python,
                ["python", "-c", code],
                self._environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, *s) for s in ((reader, 0), (log, 1), (log, 2))],
                setsid=True,  # so that it is not taken for a run
                setsigmask=[],
                setsigdef=RESTORED_SIGNALS,
            )
            self._started_at = time.monotonic()
        finally:
            os.close(reader)
            os.close(log)


def find_reason(settings: Settings) -> str:
    """Return why an agent like this one never has a parent, empty if it may have one."""
    if settings.metrics:
        return "a wrapper reads its metrics"
    if settings.count == 1:
        return "the agent takes one run"  # which a parent would preload for alone
    return "" if os.path.isdir("/proc/self/fd") and hasattr(os, "fork") else "no /proc"


def write_stand_in(path: str, python: str) -> None:
    """Write the stand-in's script, to be executed by a Python without any package."""
    line = f"#!{python} -IS\n"
    if len(line) > SHEBANG_BYTES or " " in python:
        line = SHELL_START.format(python=python)
    source = pkgutil.get_data(__package__ or "", "stand_in.py") or b""
    with open(path, "wb") as file:
        file.write(line.encode() + source)
    os.chmod(path, 0o700)
