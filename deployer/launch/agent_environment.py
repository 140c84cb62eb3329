"""What each agent of a sweep is told through its environment; pure."""

from __future__ import annotations

from collections.abc import Sequence

from deployer.agent.settings import COUNT_VARIABLE, DEADLINE_VARIABLE, POLLS_VARIABLE, QUICK, STOCK
from deployer.executors.base import Agent


def build_environment(
    one_run: bool, deadline: float | None, polls: str
) -> tuple[tuple[str, str], ...]:
    """Return an agent's variables; `deadline` is in seconds since the epoch, None for never."""
    told = {
        COUNT_VARIABLE: "1" if one_run else "",
        DEADLINE_VARIABLE: "" if deadline is None else f"{deadline:.0f}",
        POLLS_VARIABLE: "" if polls == STOCK else polls,
    }
    return tuple((name, value) for name, value in told.items() if value)


def choose_polls(extended: bool) -> str:
    """Return how agents wait for their runs; W&B's own servers would refuse so many questions."""
    return QUICK if extended else STOCK


def find_polls(agents: Sequence[Agent]) -> str | None:
    """Return how the youngest of a sweep's agents waits, None without agents; oldest first."""
    told = [agent.environment.get(POLLS_VARIABLE, STOCK) for agent in agents[-1:]]
    return next(iter(told), None)
