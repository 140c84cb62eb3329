"""The exit code of a run's process, read before the agent, which keeps it to itself, reaps it.

A run that calls `wandb.init` tells its end to the server. Of one that dies before, the server only
learns that it is gone: a wrong command line then looks like a machine in trouble.
"""

import time
from typing import Optional

from .delivery import ACTIVE, STARTED, Task, get_run, stream
from .processes import list_processes, read_exit_status

# argparse's, click's and Python's own: the command line is wrong, and will be.
USAGE_ERROR = 2
# Who reads a wrong command line dies soon, and the agent looks every five seconds.
EARLY_SECONDS = 60.0
EARLY_TICK_SECONDS = 0.1
UNSTARTED = tuple(state for state in ACTIVE if state not in STARTED)


class RunExit:
    """Watches the process of the run that an agent began last."""

    def __init__(self, agent: int) -> None:
        self._agent = agent
        self._process: Optional[int] = None
        self._begun = float("-inf")

    def begin(self) -> None:
        """Take note that a run begins."""
        self._process = None
        self._begun = time.monotonic()

    def is_early(self) -> bool:
        """Tell whether the run has begun so recently that its end may come at any moment."""
        return time.monotonic() < self._begun + EARLY_SECONDS

    def has_refused(self) -> bool:
        """Tell, once, that the run has ended since its command line is wrong."""
        if not self.is_early():
            return False
        if self._process is None:
            runs = (p for p in list_processes() if p.parent == self._agent and p.is_run)
            self._process = next((process.id for process in runs), None)
        if self._process is None or read_exit_status(self._process) != USAGE_ERROR:
            return False
        self._begun = float("-inf")
        return True


def report_usage_error(task: Task, run_id: str, seconds: float) -> None:
    """Tell the server that a run died of its command line; one that was started tells it itself.

    Before the agent says that the run is gone: then it is the server's to judge.
    """
    deadline = time.monotonic() + seconds
    run = get_run(task, run_id, deadline)
    if run and run.state in UNSTARTED:
        stream(task, run_id, {"complete": True, "exitcode": USAGE_ERROR}, time.monotonic())
