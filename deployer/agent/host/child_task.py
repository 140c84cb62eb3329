"""A child task: network requests, made in a forked child of the supervisor.

So urllib and ssl never stay in the supervisor's memory, and a hanging server never delays a signal.
"""

import json
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any, Callable


@dataclass(frozen=True)
class ChildTask:
    """A child at work, and the pipe into which it writes its result."""

    process_id: int
    pipe: int


def start_task(work: Callable[[], object], seconds: float) -> ChildTask:
    """Start `work` in a child that ends after so many seconds at the latest.

    What it returns must be JSON; the child is reaped like every other one.
    """
    receiver, sender = os.pipe()
    child = os.fork()
    if child:
        os.close(sender)
        return ChildTask(child, receiver)
    try:
        os.closerange(3, sender)  # the supervisor's lock must not live on in here
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with os.fdopen(sender, "w", encoding="utf-8") as pipe:
            pipe.write(json.dumps(work()))
    except Exception as error:
        sys.stderr.write(f"deployer: a child task failed: {error!r}\n")
    finally:
        os._exit(0)


def run_task(work: Callable[[], object], seconds: float) -> Any:
    """Do `work` in a child and wait for its result; None if it took too long or failed."""
    task = start_task(work, seconds)
    os.waitpid(task.process_id, 0)
    return read_result(task)


def read_result(task: ChildTask) -> Any:
    """Return the result of a task whose child has ended; None if it failed."""
    with os.fdopen(task.pipe, encoding="utf-8") as pipe:
        text = pipe.read()
    return json.loads(text) if text else None
