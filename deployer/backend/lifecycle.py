"""What becomes of a run: pure rules from what happened to W&B's states.

Sources: W&B's documented run states, and what its own server was seen to do with exit records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Cause = Literal["finished", "stopped", "interrupted", "own failure", "never started", "lost"]

# A reply can be lost and a trainer can die before `wandb.init`: the server cannot tell them apart.
MAX_DELIVERIES = 3


@dataclass(frozen=True)
class Patience:
    """How many seconds the server waits before it draws a conclusion.

    An exit record comes after the agent saw the process end, and a slow disk needs time for it.
    The SDK sends something at least every 30 s and backs off for up to 60 s after an outage.
    `stopped` in the file stream's reply lets a run flush; the agent's `stop` is SIGTERM, which
    does not, so it comes later.
    """

    exit_record_seconds: float = 20.0
    silence_seconds: float = 120.0
    graceful_stop_seconds: float = 45.0


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended: the run's state, why, and whether it is handed out again."""

    state: str
    cause: Cause
    queued: bool = False


def judge_exit(exit_code: int, preempting: bool, stopping: bool) -> Outcome:
    """Judge an exit record, as W&B does."""
    if exit_code == 0:
        return Outcome("finished", "finished")
    if preempting:
        return Outcome("preempted", "interrupted", queued=True)
    if stopping:
        return Outcome("killed", "stopped")
    return Outcome("failed", "own failure")


def judge_disappearance(started: bool, preempting: bool, stopping: bool) -> Outcome:
    """Judge an attempt that ended without an exit record: a signal, or a machine that went away."""
    if preempting:
        return Outcome("preempted", "interrupted", queued=True)
    if stopping:
        return Outcome("killed", "stopped")
    if not started:
        return Outcome("failed", "never started")
    return Outcome("crashed", "lost", queued=True)
