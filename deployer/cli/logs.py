"""`deployer agents logs`: what agents and runs print, also of those that are gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from deployer.cli.output.render import say, show_json_line, show_log_line
from deployer.cli.shell.call import Call
from deployer.cli.shell.completion import complete_agents
from deployer.cli.shell.options import SweepArgument
from deployer.errors import AgentError, ConfigError, DeployerError
from deployer.executors.base import Executor
from deployer.launch.agents.scaling import find_named
from deployer.model import SweepPath
from deployer.sweeps.hyperparameter_sets import find_run_of_set
from deployer.text import strip_colours
from deployer.wandb_api.operations import get_snapshot, get_sweep
from deployer.watch.run_logs import follow_run, read_lost_output


def logs(
    call: Call,
    sweep: SweepArgument = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until all have ended.")
    ] = False,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent", metavar="AGENT", autocompletion=complete_agents, help="Only this one."
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Only this run, whichever agents have it; or the number of its set.",
        ),
    ] = None,
) -> None:
    """Show agents' logs, each line with its agent's name in front."""
    if run and agent:
        raise ConfigError("--run", "does not go together with --agent", "leave one of them out")
    whose = "run" if run else "agent"
    lines = _read_run(call, sweep, run, follow) if run else _read(call, sweep, agent, follow)
    for name, line in lines:
        if call.output == "json":
            show_json_line({whose: name, "line": strip_colours(line)})
        else:
            show_log_line(f"{name} | {line}")


def _read_run(call: Call, sweep: str | None, run: str, follow: bool) -> Iterator[tuple[str, str]]:
    _, server, path = call.connect(sweep, reading=True)
    run = find_run_of_set(get_snapshot(server.client, path), run) if run.isdecimal() else run
    silent = True
    for line in follow_run(server.client, path, run, follow, time.sleep):
        silent = False
        yield run, line
    if silent:
        say(f"{run} has sent no output to the server")


def _read(
    call: Call, sweep: str | None, agents: list[str] | None, follow: bool
) -> Iterator[tuple[str, str]]:
    _, executor, path = call.find(sweep)
    names = [agent.name for agent in executor.list_agents(str(path))]
    if agents:
        names = [agent.name for agent in find_named(executor, path, agents)]
    if not names:
        raise _find_why_none(call, path)
    lost = _without_log(executor, path, names) if not executor.runs_here else []
    if lost:
        _, server, path = call.connect(sweep, reading=True)
        yield from read_lost_output(server.client, path, lost)
    for agent in executor.list_agents(str(path)):
        if agent.name in names and agent.state == "starting" and agent.reason:
            say(f"{agent.name} has not started: {agent.reason}")
    yield from executor.log_lines(names, follow)


def _find_why_none(call: Call, path: SweepPath) -> DeployerError:
    """Return why a sweep has no agents; raises WandbError if there is no such sweep."""
    _, server, _ = call.connect(str(path), reading=True)
    get_sweep(server.client, path)
    return AgentError(
        f"{path} has no agents here, and their logs go with `down`",
        f"what a run sent to the server: deployer agents logs {path} --run RUN",
    )


def _without_log(executor: Executor, path: SweepPath, names: list[str]) -> list[str]:
    """Return the agents whose pods are gone, and their logs with them."""
    there = {agent.name for agent in executor.list_agents(str(path)) if agent.pod}
    return [name for name in names if name not in there]
