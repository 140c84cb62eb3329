"""How attempts ended and what becomes of their runs, in words; pure."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from functools import lru_cache

from deployer.wandb_api.model import Attempt

WORDS = {
    "finished": "finished",
    "delivered": "all rows delivered",
    "stopped": "stopped",
    "interrupted": "interrupted",
    "own failure": "crashed",
    "usage error": "refused its command line",
    "never started": "ended before wandb.init",
    "signal": "killed",
    "OOM": "killed, since there was not enough memory",
    "node": "gone together with its agent or its machine",
    "lost reply": "sent again, since its agent had not received it",
}
# By these, a process decides on its exit code itself; after others it is only somebody's word.
OWN_EXIT_CODE = ("delivered", "own failure", "usage error", "never started")
NOTED = ("delivered", "usage error", "never started", "OOM")


@lru_cache(maxsize=256)
def describe_attempt(cause: str, exit_code: int | None) -> str:
    """Say how an attempt ended, with its exit code or the signal that killed it."""
    said = WORDS.get(cause, cause)
    if cause == "delivered" and exit_code is None:
        return f"{said}, exit unknown"
    code = f"exit code {exit_code}" if cause in OWN_EXIT_CODE and exit_code is not None else ""
    how = _name_signal(exit_code) or code
    between = ", then " if cause == "delivered" else ": "
    return f"{said}{between}{how}" if how else said


def describe_ending(state: str, attempts: Sequence[Attempt], sweep_ended: bool) -> str:
    """Say what a run's state does not: what it waits for and why, or how it ended; else nothing."""
    last = attempts[-1] if attempts else None
    if last is None or last.cause is None:
        return ""
    said = describe_attempt(last.cause, last.exit_code)
    if state == "preempted":
        waits = "was not tried again" if sweep_ended else "waits for its next attempt"
        return f"{waits} ({said})"
    if last.cause == "signal" and state == "failed":
        return f"{said}, again and again without a new step"
    return said if last.cause in NOTED else ""


def _name_signal(exit_code: int | None) -> str:
    """Return the name of the signal that a shell's exit code stands for, if any."""
    try:
        return signal.Signals((exit_code or 0) - 128).name
    except ValueError:
        return ""
