"""The exit status of a run, as the launcher in its agent's process tells it.

A run that calls `wandb.init` tells its end to the server. Of one that dies before, the server only
learns that it is gone: a wrong command line, a kill and a broken script then look alike. And one
may be killed between its exit record and its own end.
"""

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass
from typing import Callable, Optional

from ..launcher import EXIT_NAME
from ..server.client import Reply, ask
from .delivery import ACTIVE, REQUEST_SECONDS, STARTED, Task, get_run, insist, stream
from .local_runs import list_wandb_files

# argparse's, click's and Python's own: the command line is wrong, and will be.
USAGE_ERROR = 2
USAGE_SECONDS = 5.0  # the agent says soon that the run is gone, and then that is what counts
REPORT_SECONDS = 600.0  # what comes late still finds the attempt that it is about
# Signals that a broken script does not bring upon itself, as it does a segmentation fault.
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
REPORT_EXIT = """
mutation DeployerReportExit($run: String!, $ago: Float!, $code: Int, $output: String) {
  deployerReportExit(input: {
    runName: $run, secondsAgo: $ago, exitcode: $code, output: $output
  }) { success }
}
"""
UNSTARTED = tuple(state for state in ACTIVE if state not in STARTED)


class RunExit:
    """How the run that an agent began last has ended; its launcher waits to be acknowledged."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, EXIT_NAME)
        self.begin()

    def begin(self) -> None:
        """Take note that a run begins."""
        self.began_at = time.time()
        self._status: Optional[int] = None
        self._told = False

    def look(self, run_id: str) -> None:
        """Read how the run has ended, if it has."""
        try:
            with open(self._path, encoding="utf-8") as file:
                record = json.load(file)
        except (OSError, ValueError):
            return
        if record["run_id"] == run_id:
            self._status = record["status"]

    def acknowledge(self) -> None:
        """Let the agent tell the server that the run is gone."""
        with contextlib.suppress(OSError):
            os.remove(self._path)

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
        """Tell whether the run has ended by a signal from outside, or its shell says so of it."""
        code = self.exit_code
        return code is not None and code - 128 in FROM_OUTSIDE


@dataclass(frozen=True)
class ProcessEnd:
    """How a run's process ended, if that was seen, what it printed last, and when (monotonic).

    `began_at` is in the time of files.
    """

    run_id: str
    exit_code: Optional[int]
    output: str
    ended_at: float
    began_at: float


def report_end(
    task: Task, end: ProcessEnd, extended: bool, acknowledge: Callable[[], None]
) -> None:
    """Tell the server what it cannot know of an end; `extended` if it keeps more than W&B's own.

    `acknowledge` is called once the agent may say that the run is gone: a server that has not heard
    of its process by then takes it for one that the agent never received.
    """
    # The SDK has told all of a run that came to `wandb.init` and to a good end.
    good = not end.exit_code and has_begun(task, end)
    missing = extended and not good
    try:
        missing = missing and report_exit(task, end).passing
        if end.exit_code == USAGE_ERROR:
            report_usage_error(task, end.run_id, USAGE_SECONDS)
    finally:
        acknowledge()
    if missing:
        insist(lambda: report_exit(task, end), end.ended_at + REPORT_SECONDS)


def report_exit(task: Task, end: ProcessEnd) -> Reply:
    """Send how a process ended to a server that keeps more than W&B's own."""
    seen = {"run": end.run_id, "code": end.exit_code, "output": end.output}
    ago = time.monotonic() - end.ended_at
    return ask(task.server, REPORT_EXIT, {**seen, "ago": ago}, REQUEST_SECONDS)


def has_begun(task: Task, end: ProcessEnd) -> bool:
    """Return True if this attempt has called `wandb.init`; earlier ones have left files, too."""
    files = list_wandb_files(task.agents_folder, end.run_id)
    return any(os.path.getmtime(path) >= end.began_at for path in files)


def report_usage_error(task: Task, run_id: str, seconds: float) -> None:
    """Tell the server that a run died of its command line; one that was started tells it itself.

    Before the agent says that the run is gone: then it is the server's to judge.
    """
    deadline = time.monotonic() + seconds
    run = get_run(task, run_id, deadline)
    if run and run.state in UNSTARTED:
        stream(task, run_id, {"complete": True, "exitcode": USAGE_ERROR}, time.monotonic())
