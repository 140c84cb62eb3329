"""Finds every process that a test has brought about, and tells what each one is.

All of them inherit the test's own `DEPLOYER_HOME`, however far they are from its process tree.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from deployer.agent.host.processes import AGENT_NAME

Kind = Literal[
    "trainer",
    "stand-in",
    "warm-parent",
    "wandb-core",
    "agent",
    "supervisor",
    "backend",
    "up",
    "other",
]

END_SECONDS = 20.0
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Found:
    """A living process and what it is."""

    kind: Kind
    process: psutil.Process

    def __str__(self) -> str:
        with contextlib.suppress(psutil.Error):
            return f"{self.kind} {self.process.pid}: {' '.join(self.process.cmdline())}"
        return f"{self.kind} {self.process.pid}"


def find_processes(state_folder: Path) -> list[Found]:
    """Return the living processes whose `DEPLOYER_HOME` is this folder, by kind, oldest first.

    The caller itself is never among them.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            ours = process.environ().get("DEPLOYER_HOME") == str(state_folder)
            if ours and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(Found(_kind_of(process), process))
    supervisors = {one.process.pid for one in found if one.kind == "supervisor"}
    judged = [Found("other", one.process) if _is_fork(one, supervisors) else one for one in found]
    return sorted(judged, key=lambda one: (one.kind, one.process.pid))


def wait_until_gone(state_folder: Path) -> list[Found]:
    """Wait for the end of all processes of a test; return those that do not end."""
    deadline = time.monotonic() + END_SECONDS
    while (left := find_processes(state_folder)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return left


def kill_all(state_folder: Path) -> None:
    """Kill whatever a test has left, stopped processes included."""
    for one in find_processes(state_folder):
        with contextlib.suppress(psutil.Error):
            one.process.kill()


def _kind_of(process: psutil.Process) -> Kind:
    command = process.cmdline()
    words = " ".join(command)
    if not command:
        return "other"
    if Path(command[0]).name == "wandb-core":
        return "wandb-core"
    if "-m deployer.backend.server.foreground" in words:
        return "backend"
    if "-m deployer.agent" in words:
        return "supervisor"
    if "-IS" in command:
        return "stand-in"
    if process.name() == AGENT_NAME:
        return "agent"
    if ".warm.fork_server import" in words:  # which an agent's parent and runs inherit from it
        return "warm-parent" if os.getsid(process.pid) == process.pid else "trainer"
    if "-m deployer up" in words:
        return "up"
    return "trainer" if "train.py" in words else "other"


def _is_fork(one: Found, supervisors: set[int]) -> bool:
    """Tell a supervisor's own fork, which asks the server one question, from a supervisor."""
    if one.kind != "supervisor":
        return False
    try:
        return one.process.ppid() in supervisors
    except psutil.Error:
        return True
