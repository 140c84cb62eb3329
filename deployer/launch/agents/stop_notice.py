"""A notice of the agents or runs that are still ending, and how long they may take at most."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from deployer.backend.scheduling.lifecycle import Patience
from deployer.errors import DeployerError
from deployer.executors.base import Executor
from deployer.model import Agent, SweepPath
from deployer.sweeps.results import ACTIVE_STATES
from deployer.text import format_count, format_seconds
from deployer.wandb_api.operations import list_runs
from deployer.wandb_api.server import Server

LOG = logging.getLogger(__name__)

SILENT_SECONDS = 3.0  # most agents end sooner
NAMED_RUNS = 5


@contextmanager
def tell_who_lasts(executor: Executor, sweep_path: str | None) -> Iterator[None]:
    """Tell once who is still there and how long at most, if the work inside takes a while."""
    timer = threading.Timer(SILENT_SECONDS, _tell, (executor, sweep_path))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell(executor: Executor, sweep_path: str | None) -> None:
    try:
        left = [
            agent
            for agent in executor.list_agents(sweep_path)
            if agent.state != "ended" and not agent.foreign
        ]
        seconds = executor.longest_stop_seconds([agent.name for agent in left])
    except DeployerError:
        return  # whoever does the work meets it, too
    if left:
        who = ", ".join(map(_name, left))
        LOG.info(f"waiting for {who}: {format_seconds(seconds)} at most, then killed")


def _name(agent: Agent) -> str:
    return f"{agent.name} (run {agent.run_id})" if agent.run_id else agent.name


def tell_which_runs_stop(server: Server, path: SweepPath) -> None:
    """Tell which runs of a cancelled sweep still go on, and how long at most."""
    runs = [run.run_id for run in list_runs(server.client, path) if run.state in ACTIVE_STATES]
    if not runs:
        return
    rest = len(runs) - NAMED_RUNS
    who = ", ".join(runs[:NAMED_RUNS]) + (f" and {rest} more" if rest > 0 else "")
    seconds = format_seconds(Patience().graceful_stop_seconds)
    then = f"{seconds} at most, then killed" if server.extended else "or killed by their agents"
    LOG.info(
        f"{format_count(len(runs), 'run')} asked to stop ({who}): {then}: deployer watch {path}"
    )
