"""Ends agents of this machine, whatever has become of their supervisors."""

from __future__ import annotations

import signal
import time

from deployer.agent.processes import (
    KILL_SECONDS,
    TERMINATE_SECONDS,
    end_processes,
    send_signal,
)
from deployer.errors import AgentError
from deployer.local.folder import AgentFolder

POLL_SECONDS = 0.1
FIRST_WORD_SECONDS = 5.0  # a supervisor that holds its lock says who it is at once


def signal_supervisor(folder: AgentFolder, number: signal.Signals) -> None:
    """Send a signal to the supervisor if there is one."""
    deadline = time.monotonic() + FIRST_WORD_SECONDS
    while folder.is_alive() and time.monotonic() < deadline:
        if status := folder.status():
            send_signal(status.process_id, number)
            return
        time.sleep(POLL_SECONDS)


def end_agent(folder: AgentFolder) -> bool:
    """Wait for a supervisor that was told to stop, then end what is left.

    Returns whether anything was alive; raises AgentError if something outlasts SIGKILL.
    """
    was_supervised = folder.is_alive()
    deadline = time.monotonic() + folder.spec.grace_seconds + 2 * TERMINATE_SECONDS + KILL_SECONDS
    while folder.is_alive():
        if time.monotonic() > deadline:
            signal_supervisor(folder, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    return end_leftovers(folder) or was_supervised


def end_leftovers(folder: AgentFolder) -> bool:
    """End what a supervisor left behind when it was killed; returns whether there was anything."""
    left = folder.processes()
    if not left:
        return False
    status = folder.status()
    if status and status.agent_process_id in {process.id for process in left}:
        # Killed first: an agent that sees its run end would fetch the next one.
        send_signal(status.agent_process_id, signal.SIGKILL)
    if not end_processes(folder.processes, folder.spec.grace_seconds):
        numbers = " ".join(str(process.id) for process in folder.processes())
        raise AgentError(
            f"processes of agent {folder.spec.name} do not end: {numbers}", f"ps -fp {numbers}"
        )
    return True
