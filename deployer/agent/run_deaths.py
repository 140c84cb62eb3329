"""Learns whether a run was killed from outside, which its agent knows and does not tell.

A run that dies before `wandb.init` leaves no trace: by its exit status alone can a kill be told
from a script that fails. It is read in the moment between the run's end and its agent's `wait`.
"""

import os
import select
import signal
import threading

from .processes import list_processes, read_exit_status

# Those that a broken script does not bring upon itself, as it does a segmentation fault.
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class RunDeaths:
    """Watches one run of an agent, a process id, after the other."""

    def __init__(self, agent: int) -> None:
        self._agent = agent
        self._run = 0
        self._killed = False

    def look(self) -> None:
        """Find the run that has just been started; called until it has ended."""
        if self._run:
            return
        runs = (p.id for p in list_processes() if p.parent == self._agent and p.is_run)
        self._run = next(runs, 0)
        if self._run:
            self._watch(self._run)

    def take(self) -> bool:
        """Tell whether the run that has ended was killed from outside; begin anew."""
        killed, self._run, self._killed = self._killed, 0, False
        return killed

    def _watch(self, run: int) -> None:
        # Older Pythons and kernels have no such handle: then a kill at this time is not known.
        try:
            handle = os.pidfd_open(run)
        except (AttributeError, OSError):
            return
        threading.Thread(target=self._await_end, args=(run, handle), daemon=True).start()

    def _await_end(self, run: int, handle: int) -> None:
        select.select([handle], [], [])
        status = read_exit_status(run)
        os.close(handle)
        if run == self._run and status is not None:
            self._killed = -status in FROM_OUTSIDE
