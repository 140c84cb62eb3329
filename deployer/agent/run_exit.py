"""The exit status of a run, read before its agent reaps the process and keeps the status to itself.

A run that calls `wandb.init` tells its end to the server. Of one that dies before, the server only
learns that it is gone: a wrong command line, a kill and a broken script then look alike. And one
may be killed between its exit record and its own end.
"""

import os
import select
import signal
import threading
import time
from dataclasses import dataclass
from typing import Optional

from .client import Reply, ask
from .delivery import ACTIVE, REQUEST_SECONDS, STARTED, Task, get_run, insist, stream
from .local_runs import list_wandb_files
from .processes import list_processes, read_exit_status

# argparse's, click's and Python's own: the command line is wrong, and will be.
USAGE_ERROR = 2
USAGE_SECONDS = 5.0  # the agent says soon that the run is gone, and then that is what counts
REPORT_SECONDS = 600.0  # what comes late still finds the attempt that it is about
# Signals that a broken script does not bring upon itself, as it does a segmentation fault.
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# A process that dies at once is found only by looking often; one that is not there by then is none
# of ours.
SEEKING_SECONDS = 60.0
SEEKING_TICK_SECONDS = 0.1
REPORT_EXIT = """
mutation DeployerReportExit($run: String!, $ago: Float!, $code: Int, $output: String) {
  deployerReportExit(input: {
    runName: $run, secondsAgo: $ago, exitcode: $code, output: $output
  }) { success }
}
"""
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

    @property
    def exit_code(self) -> Optional[int]:
        """Return the exit code as a shell gives it; None while the run goes on, or if unknown."""
        if self._status is None:
            return None
        return self._status if self._status >= 0 else 128 - self._status

    def tell(self) -> bool:
        """Tell whether nobody has been told of this end yet; from now on, somebody has."""
        told, self._told = self._told, True
        return not told

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


@dataclass(frozen=True)
class ProcessEnd:
    """How a run's process ended, if that was seen, what it printed last, and when (monotonic)."""

    run_id: str
    exit_code: Optional[int]
    output: str
    ended_at: float


def report_end(task: Task, end: ProcessEnd, extended: bool) -> None:
    """Tell the server what it cannot know of an end; `extended` if it keeps more than W&B's own."""
    if end.exit_code == USAGE_ERROR:
        report_usage_error(task, end.run_id, USAGE_SECONDS)
    # The SDK has told all of a run that came to `wandb.init` and to a good end.
    if not extended or (not end.exit_code and list_wandb_files(task.agents_folder, end.run_id)):
        return

    def report() -> Reply:
        seen = {"run": end.run_id, "code": end.exit_code, "output": end.output}
        ago = time.monotonic() - end.ended_at
        return ask(task.server, REPORT_EXIT, {**seen, "ago": ago}, REQUEST_SECONDS)

    insist(report, end.ended_at + REPORT_SECONDS)


def report_usage_error(task: Task, run_id: str, seconds: float) -> None:
    """Tell the server that a run died of its command line; one that was started tells it itself.

    Before the agent says that the run is gone: then it is the server's to judge.
    """
    deadline = time.monotonic() + seconds
    run = get_run(task, run_id, deadline)
    if run and run.state in UNSTARTED:
        stream(task, run_id, {"complete": True, "exitcode": USAGE_ERROR}, time.monotonic())
