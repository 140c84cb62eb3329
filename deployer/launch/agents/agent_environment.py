"""What each agent of a sweep is told through its environment; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deployer.agent.settings import (
    COUNT_VARIABLE,
    DEADLINE_VARIABLE,
    POLLS_VARIABLE,
    QUICK,
    STOCK,
    WARM_VARIABLE,
)
from deployer.config.project import Project
from deployer.executors.base import Agent


@dataclass(frozen=True)
class Pace:
    """How soon an agent's runs follow one another.

    `polls` is when it sees the end of a run, `quick` or `stock`; `warm` runs are forked.
    """

    polls: str = STOCK
    warm: bool = False


def build_environment(
    one_run: bool, deadline: float | None, pace: Pace
) -> tuple[tuple[str, str], ...]:
    """Return an agent's variables; `deadline` is in seconds since the epoch, None for never."""
    told = {
        COUNT_VARIABLE: "1" if one_run else "",
        DEADLINE_VARIABLE: "" if deadline is None else f"{deadline:.0f}",
        POLLS_VARIABLE: "" if pace.polls == STOCK else pace.polls,
        WARM_VARIABLE: "1" if pace.warm else "",
    }
    return tuple((name, value) for name, value in told.items() if value)


def choose_pace(project: Project, extended: bool) -> Pace:
    """Return a sweep's pace; W&B's own servers would refuse so many questions."""
    return Pace(project.polls or (QUICK if extended else STOCK), project.warm)


def find_pace(agents: Sequence[Agent]) -> Pace:
    """Return the pace of the youngest of a sweep's agents; they are oldest first."""
    told = agents[-1].environment if agents else {}
    return Pace(told.get(POLLS_VARIABLE, STOCK), told.get(WARM_VARIABLE) == "1")
