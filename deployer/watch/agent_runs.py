"""What only the server knows of an agent: its run, and whether it was heard of; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deployer.model import Agent, Run
from deployer.sweeps.results import ACTIVE_STATES

# An agent asks the server within seconds; its Job, from which we count, may wait for its image.
UNHEARD_SECONDS = 30.0
UNHEARD = "still importing; see: deployer agents logs"


def join_runs(agents: Sequence[Agent], runs: Sequence[Run]) -> tuple[Agent, ...]:
    """Give living agents the active run whose open attempt is theirs.

    An executor that knows its agents' runs is believed. Servers that keep no attempts tell nothing.
    """
    open_attempts = {
        run.attempts[-1].agent: run.run_id
        for run in runs
        if run.state in ACTIVE_STATES and run.attempts and run.attempts[-1].cause is None
    }
    return tuple(
        replace(agent, run_id=agent.run_id or open_attempts.get(agent.name))
        if agent.alive
        else agent
        for agent in agents
    )


def note_unheard(agents: Sequence[Agent], heard: bool, now: float) -> tuple[Agent, ...]:
    """Say of agents that run for a while that the server has not heard of any agent yet.

    `heard` tells whether it has; `now` is in seconds since the epoch.
    """
    return tuple(
        replace(agent, reason=UNHEARD)
        if not (heard or agent.run_id or agent.reason)
        and agent.state == "running"
        and now - agent.started_at > UNHEARD_SECONDS
        else agent
        for agent in agents
    )
