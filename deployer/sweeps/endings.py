"""How attempts ended and what becomes of their runs, in words; pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from functools import lru_cache

from deployer.model import Attempt

WORDS = {
    "finished": "finished",
    "delivered": "all rows delivered",
    "stopped": "stopped",
    "interrupted": "interrupted",
    "own failure": "crashed",
    "usage error": "rejected its command line",
    "no run": "ended without wandb.init",
    "offline": "its script ran wandb offline",
    "other project": "its script sent the run to a project other than the sweep's",
    "own sweep": "its script creates its own sweep",
    "missing program": "its program was not found or cannot be executed",
    "authentication error": "its script had no valid API key",
    "never started": "ended before wandb.init",
    "no server": "wandb.init reached no server",
    "signal": "killed",
    "OOM": "killed because memory ran out",
    "node": "lost with its agent or its machine",
    "lost reply": "sent again, because its agent had not received it",
}
# What would fail again in the same way, so that the server does not retry it, and what fixes it.
FIXES = {
    "usage error": "let the script accept the flags that the sweep file sends",
    "no run": "the script exited with 0 without wandb.init: call it in each run, or let deployer "
    "read the output with `metrics: {from: stdout}` in deployer.yaml",
    "offline": 'let the script run wandb online: remove WANDB_MODE and mode="offline"',
    "other project": "remove WANDB_PROJECT, WANDB_ENTITY and id= from the script's wandb settings",
    "own sweep": 'eval "$(deployer backend env)", then start the script: it has its own agents',
    "missing program": "correct program: or command: in the sweep file, or install the program",
    "authentication error": "remove the API key from the script: its agent has one",
}
# What a user does beside; the last is retried all the same.
REMEDIES = {
    **FIXES,
    "OOM": "give each agent more memory: kubernetes: {memory: …} in deployer.yaml; on one machine, "
    "start fewer",
}
# How attempts end that fail by themselves: what is then tried again is no heal.
OWN_FAILURES = ("own failure", "never started", *FIXES)
# By these, a process decides on its exit code itself; after others it is only somebody's word.
OWN_EXIT_CODE = ("delivered", *OWN_FAILURES)
NOTED = ("delivered", "never started", "no server", "OOM", *FIXES)


# What deployer's agent and wandb print around a run's own words; an error of wandb is one of them.
NOISE = re.compile(
    r"[\d-]{10} [\d:]{8} - deployer - |(\x1b\[[\d;]*m)*wandb(\x1b\[[\d;]*m)*:(?!.*\bERROR\b)"
)


@lru_cache(maxsize=256)
def describe_attempt(cause: str, exit_code: int | None) -> str:
    """Say how an attempt ended, with its exit code or the signal that killed it."""
    said = WORDS.get(cause, cause)
    if cause == "own failure" and exit_code == 0:
        said = "left during its run"
    if cause == "delivered" and exit_code is None:
        return f"{said}, exit unknown"
    code = f"exit code {exit_code}" if cause in OWN_EXIT_CODE and exit_code is not None else ""
    how = name_signal(exit_code) or code
    between = ", then " if cause == "delivered" else ": "
    return f"{said}{between}{how}" if how else said


def keep_own_lines(lines: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return the last lines that a run printed itself; the last ones if there are only others."""
    own = [line for line in lines if not NOISE.match(line)]
    return tuple((own if any(line.strip() for line in own) else lines)[-limit:])


def find_last_words(lines: Sequence[str]) -> str:
    """Return the last line that a run printed itself; empty if there is none."""
    own = (line.strip() for line in reversed(lines) if not NOISE.match(line))
    return next(filter(None, own), "")


def describe_ending(state: str, attempts: Sequence[Attempt], sweep_ended: bool) -> str:
    """Say what a run's state does not: what it waits for and why, or how it ended; else nothing."""
    last = attempts[-1] if attempts else None
    if last is None or last.cause is None:
        return ""
    said = describe_attempt(last.cause, last.exit_code)
    if state == "preempted":
        waits = "was not retried" if sweep_ended else "waits for its next attempt"
        return f"{waits} ({said})"
    if last.cause == "signal" and state == "failed":
        again = sum(attempt.cause == "signal" for attempt in attempts) > 1
        return f"{said}, repeatedly without progress" if again else said
    return said if last.cause in NOTED else ""


def name_signal(exit_code: int | None) -> str:
    """Return the name of the signal that a shell's exit code stands for, if any."""
    try:
        return signal.Signals((exit_code or 0) - 128).name
    except ValueError:
        return ""
