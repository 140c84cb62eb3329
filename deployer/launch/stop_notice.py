"""A notice of the agents that are still ending, and how long they may take at most."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from deployer.errors import DeployerError
from deployer.executors.base import Agent, Executor
from deployer.executors.target import Tell
from deployer.text import format_seconds

SILENT_SECONDS = 3.0  # most agents end sooner


@contextmanager
def tell_who_lasts(executor: Executor, sweep_path: str | None, tell: Tell) -> Iterator[None]:
    """Tell once who is still there and how long at most, if the work inside takes a while."""
    timer = threading.Timer(SILENT_SECONDS, _tell, (executor, sweep_path, tell))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell(executor: Executor, sweep_path: str | None, tell: Tell) -> None:
    try:
        left = [agent for agent in executor.list_agents(sweep_path) if agent.state != "ended"]
        seconds = executor.longest_stop_seconds([agent.name for agent in left])
    except DeployerError:
        return  # whoever does the work meets it, too
    if left:
        who = ", ".join(map(_name, left))
        tell(f"waiting for {who}: {format_seconds(seconds)} at most, then killed")


def _name(agent: Agent) -> str:
    return f"{agent.name} (run {agent.run_id})" if agent.run_id else agent.name
