"""An agent for each run, which leaves after it: how many, and under which names; pure."""

from __future__ import annotations

from collections.abc import Iterable

from deployer.agent.settings import COUNT_VARIABLE
from deployer.config.deployer_yaml import find_too_many
from deployer.errors import ConfigError
from deployer.model import Agent
from deployer.sweeps.results import Coverage


def takes_one_run(agent: Agent) -> bool:
    """Tell whether an agent leaves after its first run, as all of its sweep do."""
    return agent.environment.get(COUNT_VARIABLE) == "1"


def count_left(coverage: Coverage) -> int | None:
    """Count the configurations that are neither finished nor given up; None without end."""
    if coverage.expected is None:
        return None
    return coverage.waiting + coverage.running


def count_agents(left: int | None, bound: int | None) -> int:
    """Return how many agents there shall be: one for each run, at most `bound` at a time.

    Raises ConfigError for a sweep without end that has no bound either, and for too many.
    """
    counts = [count for count in (left, bound) if count is not None]
    if not counts:
        raise ConfigError(
            "--one-run-per-job",
            "the number of runs of an endless sweep is unknown",
            "--run-cap N ends it, --replicas N limits how many run at a time",
        )
    bounded = "--replicas N limits how many run at a time"
    if error := find_too_many("--one-run-per-job", min(counts), bounded):
        raise error
    return min(counts)


def list_used_names(agents: Iterable[Agent]) -> list[str]:
    """Return the names whose run is settled: the next agents have others, so that logs stay.

    One that was killed is followed by one of its name, to which its run returns at once.
    """
    return [
        agent.name
        for agent in agents
        if takes_one_run(agent) and agent.state == "ended" and agent.exit_code == 0
    ]
