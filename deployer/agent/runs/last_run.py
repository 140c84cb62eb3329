"""The last run of an agent with a limited number of runs: it asks the server for no more.

From the agent's next question the server would learn that a run is gone. Called in short-lived
processes alone.
"""

import time

from .delivery import KILLED_EXIT_CODE, Task, get_run, stream

# Assigned, and its trainer never came to `wandb.init`.
UNSTARTED = "pending"
RETURNED = "preempted"


def end_unstarted(task: Task, run_id: str, seconds: float) -> None:
    """Report a run that ended before `wandb.init` as failed."""
    deadline = time.monotonic() + seconds
    run = get_run(task, run_id, deadline)
    if run and run.state == UNSTARTED:
        stream(task, run_id, {"complete": True, "exitcode": KILLED_EXIT_CODE}, deadline)


def is_settled(task: Task, run_id: str, seconds: float) -> bool:
    """Tell whether the run will not be handed out again; False if the server does not say."""
    run = get_run(task, run_id, time.monotonic() + seconds)
    return run is not None and run.state not in (RETURNED, UNSTARTED)
