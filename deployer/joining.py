"""Which run an agent has now, where only the server knows; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deployer.place import Agent
from deployer.results import ACTIVE_STATES
from deployer.wandb_api import RunInfo


def join_runs(agents: Sequence[Agent], runs: Sequence[RunInfo]) -> tuple[Agent, ...]:
    """Give living agents the active run whose open attempt is theirs.

    A place that knows its agents' runs is believed. Servers that keep no attempts tell nothing.
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
