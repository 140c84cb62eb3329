"""The exit status of a run, read before its agent reaps the process and keeps the status to itself.

A run that calls `wandb.init` tells its end to the server. Of one that dies before, the server only
learns that it is gone: a wrong command line, a kill and a broken script then look alike.
"""

import os
import select
import signal
import threading
import time
from typing import Optional

from .delivery import ACTIVE, STARTED, Task, get_run, stream
from .processes import list_processes, read_exit_status

# argparse's, click's and Python's own: the command line is wrong, and will be.
USAGE_ERROR = 2
# Signals that a broken script does not bring upon itself, as it does a segmentation fault.
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# A process that dies at once is found only by looking often; one that is not there by then is none
# of ours.
SEEKING_SECONDS = 60.0
SEEKING_TICK_SECONDS = 0.1
UNSTARTED = tuple(state for state in ACTIVE if state not in STARTED)


class RunExit:
    """Watches the process of the run that an agent began last."""

    def __init__(self, agent: int) -> None:
        self._agent = agent
        self._process = 0
        self._status: Optional[int] = None
        self._begun = float("-inf")
        self._told = False

    def begin(self) -> None:
        """Take note that a run begins."""
        self._process, self._status, self._told = 0, None, False
        self._begun = time.monotonic()

    def is_sought(self) -> bool:
        """Tell whether the run has begun and its process has not been found yet."""
        return not self._process and time.monotonic() < self._begun + SEEKING_SECONDS

    def look(self) -> None:
        """Find the run's process if it is not known, and wait for its end in the background."""
        if not self.is_sought():
            return
        runs = (p.id for p in list_processes() if p.parent == self._agent and p.is_run)
        self._process = next(runs, 0)
        if not self._process:
            return
        # Older Pythons and kernels have no such handle: then nobody knows how the run ended.
        try:
            handle = os.pidfd_open(self._process)
        except (AttributeError, OSError):
            return
        threading.Thread(target=self._await_end, args=(self._process, handle), daemon=True).start()

    def has_refused(self) -> bool:
        """Tell, once, that the run has ended since its command line is wrong."""
        refused = self._status == USAGE_ERROR and not self._told
        self._told = self._told or refused
        return refused

    @property
    def killed(self) -> bool:
        """Tell whether the run has ended by a signal from outside."""
        return self._status is not None and -self._status in FROM_OUTSIDE

    def _await_end(self, process: int, handle: int) -> None:
        select.select([handle], [], [])
        status = read_exit_status(process)
        os.close(handle)
        if process == self._process:
            self._status = status


def report_usage_error(task: Task, run_id: str, seconds: float) -> None:
    """Tell the server that a run died of its command line; one that was started tells it itself.

    Before the agent says that the run is gone: then it is the server's to judge.
    """
    deadline = time.monotonic() + seconds
    run = get_run(task, run_id, deadline)
    if run and run.state in UNSTARTED:
        stream(task, run_id, {"complete": True, "exitcode": USAGE_ERROR}, time.monotonic())
