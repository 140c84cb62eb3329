"""When a sweep's agents leave, watched or not (`--max-time`); pure.

Each supervisor knows it and interrupts its run, which is handed out again to later agents. What
does not obey is ended by its Job's own deadline, a little later.
"""

from __future__ import annotations

from collections.abc import Sequence

from deployer.agent.settings import DEADLINE_VARIABLE
from deployer.model import Agent

JOB_PATIENCE_SECONDS = 120.0  # the supervisor has its grace time first


def find_end(max_seconds: float | None, now: float) -> float | None:
    """Return when agents that start now leave, in seconds since the epoch; None for never."""
    return None if max_seconds is None else now + max_seconds


def count_job_seconds(deadline: float | None, now: float) -> float | None:
    """Return how long from now a Job may last, a little more than its agent; None for ever."""
    return None if deadline is None else deadline - now + JOB_PATIENCE_SECONDS


def find_deadline(agents: Sequence[Agent]) -> float | None:
    """Return when the last of a sweep's agents leaves, in seconds since the epoch.

    None if one of the living never does. Once none lives, the youngest tells; `agents` are oldest
    first.
    """
    asked = [agent for agent in agents if agent.alive] or agents[-1:]
    told = [agent.environment.get(DEADLINE_VARIABLE) for agent in asked]
    return max((float(one) for one in told if one), default=None) if all(told) else None
