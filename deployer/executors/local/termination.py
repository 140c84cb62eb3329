"""Ends agents on this machine, also those whose supervisors have died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

from deployer.agent.host.processes import (
    KILL_SECONDS,
    TERMINATE_SECONDS,
    holds_open,
    read_variable,
    send_signal,
)
from deployer.agent.runs.interruption import SERVER_SECONDS
from deployer.agent.server.questions import GOODBYE_SECONDS
from deployer.errors import AgentError
from deployer.executors.local.agent_folder import AgentFolder

POLL_SECONDS = 0.1
EXIT_SECONDS = 5.0  # of a Python that has nothing left to do


def signal_supervisor(folder: AgentFolder, number: signal.Signals) -> None:
    """Send a signal to the supervisor if there is one: it holds its lock open.

    Its status need not name it: on a full disk, it has none.
    """
    lock = os.path.realpath(folder.settings.lock_path)
    for process in folder.processes():
        if holds_open(process.id, lock):
            send_signal(process.id, number)


def end_agent(folder: AgentFolder, environment: Mapping[str, str]) -> bool:
    """Wait for a supervisor that was told to stop, then end what is left in `environment`.

    Returns whether anything was alive; raises AgentError if something outlasts SIGKILL.
    """
    was_supervised = folder.is_alive()
    deadline = time.monotonic() + longest_end_seconds(folder)
    while folder.is_alive():
        if time.monotonic() > deadline:
            signal_supervisor(folder, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    return end_leftovers(folder, environment) or was_supervised


def await_exit(folder: AgentFolder) -> None:
    """Wait for a supervisor that has said its end, and lives for a moment more."""
    deadline = time.monotonic() + EXIT_SECONDS
    while folder.agent().state == "ended" and folder.is_alive() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def longest_end_seconds(folder: AgentFolder) -> float:
    """Return how long a supervisor may take from being told to stop until it is killed."""
    ours = 2 * SERVER_SECONDS + 2 * TERMINATE_SECONDS + KILL_SECONDS + GOODBYE_SECONDS
    return folder.spec.grace_seconds + ours


def end_leftovers(folder: AgentFolder, environment: Mapping[str, str]) -> bool:
    """End what a supervisor left behind when it was killed; returns whether there was anything.

    Its runs are handed out again, by the word of the key that its processes still carry.
    """
    left = folder.processes()
    if not left:
        return False
    keys = [key for process in left if (key := read_variable(process.id, "WANDB_API_KEY"))]
    spec = folder.spec
    command = [sys.executable, "-P", "-m", "deployer.agent", spec.sweep_path, "--clear"]
    # By flags: by its environment, this process would be taken for a leftover, too.
    executor = ["--name", spec.name, "--folder", str(folder.path)]
    subprocess.run(
        [*command, *executor, "--grace-seconds", str(spec.grace_seconds)],
        stdin=subprocess.DEVNULL,
        cwd=folder.path,
        env={**environment, "WANDB_BASE_URL": spec.base_url, "WANDB_API_KEY": "".join(keys[:1])},
        check=False,
    )
    if left := folder.processes():
        numbers = " ".join(str(process.id) for process in left)
        raise AgentError(
            f"processes of agent {spec.name} are still running: {numbers}", f"ps -fp {numbers}"
        )
    return True
