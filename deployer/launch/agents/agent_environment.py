"""What each agent of a sweep is told through its environment; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deployer.agent.settings import (
    COUNT_VARIABLE,
    DEADLINE_VARIABLE,
    ISOLATE_VARIABLE,
    METRICS_VARIABLE,
    POLLS_VARIABLE,
    QUICK,
    STOCK,
    WARM_VARIABLE,
    parse_warm,
)
from deployer.config.project import Project
from deployer.model import Agent


@dataclass(frozen=True)
class Pace:
    """How an agent's runs start and end.

    `polls` is when it sees the end of a run, `quick` or `stock`; `warm` runs are forked, with
    `warm_packages` preloaded besides the agent's own list. With `metrics`, a wrapper opens each run
    and reads its metrics, and exit code 0 is success; it is empty for scripts that log them. With
    `isolate`, each works in a folder of its own.
    """

    polls: str = STOCK
    warm: bool = False
    warm_packages: tuple[str, ...] = ()
    metrics: str = ""
    isolate: bool = False


def build_environment(
    one_run: bool, deadline: float | None, pace: Pace
) -> tuple[tuple[str, str], ...]:
    """Return an agent's variables; `deadline` is in seconds since the epoch, None for never."""
    told = {
        COUNT_VARIABLE: "1" if one_run else "",
        DEADLINE_VARIABLE: "" if deadline is None else f"{deadline:.0f}",
        POLLS_VARIABLE: "" if pace.polls == STOCK else pace.polls,
        WARM_VARIABLE: " ".join(("1", *pace.warm_packages)) if pace.warm else "",
        METRICS_VARIABLE: pace.metrics,
        ISOLATE_VARIABLE: "1" if pace.isolate else "",
    }
    return tuple((name, value) for name, value in told.items() if value)


def choose_pace(project: Project, extended: bool) -> Pace:
    """Return a sweep's pace; W&B's own servers would refuse so many questions."""
    settings = project.settings
    polls = settings.polls or (QUICK if extended else STOCK)
    packages = settings.warm if isinstance(settings.warm, tuple) else ()
    warm = (settings.warm is not False, packages)
    return Pace(polls, *warm, project.metrics.variable, settings.isolate)


def find_pace(agents: Sequence[Agent]) -> Pace:
    """Return the pace of the youngest of a sweep's agents; they are oldest first."""
    told = agents[-1].environment if agents else {}
    polls = told.get(POLLS_VARIABLE, STOCK)
    warm, isolate = parse_warm(told.get(WARM_VARIABLE, "")), ISOLATE_VARIABLE in told
    return Pace(polls, *warm, told.get(METRICS_VARIABLE, ""), isolate)
