"""The output of agents and runs, also after they have ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence

from deployer.errors import AgentError, DeployerError
from deployer.executors.base import Executor
from deployer.launch.scaling import find_named
from deployer.model import SweepPath
from deployer.sweeps.set_files import find_run_of_set
from deployer.wandb_api.operations import get_snapshot, get_sweep
from deployer.wandb_api.server import Server
from deployer.watch.run_logs import follow_run, read_lost_output

LOG = logging.getLogger(__name__)


def read_run_log(
    server: Server, path: SweepPath, run: str, follow: bool
) -> Iterator[tuple[str, str]]:
    """Yield (run id, line) of one run across its agents; `run` may be its set's number.

    Raises WandbError if the run does not exist.
    """
    run = find_run_of_set(get_snapshot(server.client, path), run) if run.isdecimal() else run
    silent = True
    for line in follow_run(server.client, path, run, follow, time.sleep):
        silent = False
        yield run, line
    if silent:
        LOG.info(f"{run} has not sent any output to the server")


def read_agent_logs(
    executor: Executor,
    path: SweepPath,
    agents: Sequence[str],
    follow: bool,
    connect: Callable[[], Server],
) -> Iterator[tuple[str, str]]:
    """Yield (agent name, line) of the named agents, or of all if none is named.

    `connect` is called only if the server is needed: for agents whose pods, and their logs, are
    gone, and for a sweep without agents. Raises AgentError, WandbError if the sweep does not exist.
    """
    names = [agent.name for agent in executor.list_agents(str(path))]
    if agents:
        names = [agent.name for agent in find_named(executor, path, agents)]
    if not names:
        raise _find_why_none(connect(), path)
    lost = _without_log(executor, path, names) if not executor.runs_here else []
    if lost:
        yield from read_lost_output(connect().client, path, lost)
    for agent in executor.list_agents(str(path)):
        if agent.name in names and agent.state == "starting" and agent.reason:
            LOG.info(f"{agent.name} has not started: {agent.reason}")
    yield from executor.log_lines(names, follow)


def _find_why_none(server: Server, path: SweepPath) -> DeployerError:
    get_sweep(server.client, path)
    return AgentError(
        f"{path} has no agents here, and `down` deletes their logs",
        f"to see what a run sent to the server: deployer agents logs {path} --run RUN",
    )


def _without_log(executor: Executor, path: SweepPath, names: Sequence[str]) -> list[str]:
    there = {agent.name for agent in executor.list_agents(str(path)) if agent.pod}
    return [name for name in names if name not in there]
