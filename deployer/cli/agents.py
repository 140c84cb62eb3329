"""`deployer agents`: start, list, scale, drain, follow and end agents."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import say, show_json_line, show_log_line, warn
from deployer.cli.output.status import show_agents, show_ended
from deployer.cli.shell.call import App, Call
from deployer.cli.shell.options import (
    MaxTimeOption,
    OneRunOption,
    PendingTimeoutOption,
    ReplicasOption,
    SweepArgument,
    complete_agents,
)
from deployer.cli.watch import say_what_begins_later, wait_until_started
from deployer.config.document import MOST_REPLICAS
from deployer.errors import AgentError, ConfigError, WandbError, collect_refusals
from deployer.executors.base import Executor
from deployer.executors.registry import find_executor
from deployer.launch.logs import read_agent_logs, read_run_log
from deployer.launch.pipeline import Launch, add_agents, drain_surplus
from deployer.launch.provision import describe_elsewhere, describe_others_here, describe_owners
from deployer.launch.scaling import (
    check_drainable,
    check_reached,
    drain_agents,
    end_willing_agents,
    find_named,
    list_shown,
    report_slow_stop,
    scale_down,
)
from deployer.model import Run, SweepPath
from deployer.sweeps.records import Records
from deployer.text import format_count, strip_colours
from deployer.wandb_api.operations import list_runs


def logs(
    call: Call,
    sweep: SweepArgument = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log until all agents have ended.")
    ] = False,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent", metavar="AGENT", autocompletion=complete_agents, help="Only this agent."
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Show only this run, on any agent: its id, or its set's number.",
        ),
    ] = None,
) -> None:
    """Show agents' logs, and start each line with the agent's name."""
    if run and agent:
        raise ConfigError("--run", "cannot be combined with --agent", "remove one of them")
    whose = "run" if run else "agent"
    if run:
        _, server, path = call.connect(sweep, reading=True)
        lines = read_run_log(server, path, run, follow)
    else:
        _, executor, path = call.find(sweep)
        lines = read_agent_logs(
            executor, path, agent or (), follow, lambda: call.connect(str(path), reading=True)[1]
        )
    for name, line in lines:
        if call.output == "json":
            show_json_line({whose: name, "line": strip_colours(line)})
        else:
            show_log_line(f"{name} | {line}")


@contextmanager
def naming_repeat() -> Iterator[None]:
    """After Ctrl-C, log that agents continue, and the command that ends them."""
    try:
        yield
    except KeyboardInterrupt:
        repeat = shlex.join(sys.argv[1:])
        say(f"\ninterrupted: live agents continue; to repeat: deployer {repeat}")
        raise


app = App("Start, list, scale, drain, follow or end agents.")


@app.command()
def up(
    call: Call,
    sweep: SweepArgument = None,
    replicas: ReplicasOption = None,
    one_run_per_job: OneRunOption = False,
    max_time: MaxTimeOption = None,
    pending_timeout: PendingTimeoutOption = None,
) -> None:
    """Start agents in the current folder until N run; drain any surplus.

    Starts none if the sweep has ended. Returns at once; with --pending-timeout, waits for the
    first agent to start.
    """
    _start(call, sweep, replicas, one_run_per_job, max_time, pending_timeout, surplus_leaves=True)


@app.command("list")
def list_(
    call: Call,
    sweep: SweepArgument = None,
    all_: Annotated[bool, typer.Option("--all", help="List agents of every sweep.")] = False,
) -> None:
    """List a sweep's agents: state, current run, node, GPU.

    With --all, lists your own agents of every sweep; other owners' agents follow in a summary.
    """
    config = call.read_of_all() if all_ else call.read_of(sweep)
    executor = find_executor(config)
    path = None if all_ else str(call.find_path(sweep, config))
    show_agents(list_shown(executor, path), call.output, time.time())
    for sentence in describe_owners(executor.list_others(path), time.time(), executor.on):
        say(sentence)


@app.command()
@naming_repeat()
def scale(
    call: Call,
    replicas: Annotated[
        int, typer.Argument(metavar="N", min=0, max=MOST_REPLICAS, help="Total number of agents.")
    ],
    sweep: SweepArgument = None,
) -> None:
    """Start or drain agents until N remain: idle agents leave first, others after their run."""
    _, executor, path = call.find(sweep)
    leaving = scale_down(executor, path, replicas, _read_runs(call, path))
    if leaving:
        say(f"{path}: draining {', '.join(leaving)}")
        _show(call, executor, path)
    check_reached(executor.list_agents(str(path)), path, replicas)
    if not leaving:
        _start(call, str(path), replicas)


@app.command()
def drain(
    call: Call,
    agent: Annotated[
        list[str],
        typer.Option(
            "--agent",
            metavar="AGENT",
            autocompletion=complete_agents,
            help="The name of an agent to drain; repeatable.",
        ),
    ],
    sweep: SweepArgument = None,
) -> None:
    """Let agents finish their current run, then end them."""
    _, executor, path = call.find(sweep)
    check_drainable(find_named(executor, path, agent))
    drain_agents(executor, path, agent)
    say(f"{path}: draining {', '.join(agent)}")
    _show(call, executor, path)


app.command()(logs)


@app.command()
def down(
    call: Call,
    sweep: SweepArgument = None,
    mine: Annotated[
        bool, typer.Option("--mine", help="End only your own agents, and do not ask about others.")
    ] = False,
) -> None:
    """Interrupt a sweep's agents; the next agents repeat their runs.

    Asks before it ends agents of other owners.
    """
    if mine and call.yes:
        raise ConfigError("--mine", "cannot be combined with --yes", "remove one of them")
    end_sweep(call, sweep, mine=mine)


@naming_repeat()
def end_sweep(call: Call, sweep: str | None, *, mine: bool = False) -> None:
    """End a sweep's agents; of other owners only if the user is sure, and never if `mine`.

    Without a `sweep`, other sweeps of the folder with live agents are named. Raises ConfigError.
    """
    config, executor, named = call.find(sweep)
    path = str(named)
    found = executor.list_others(path)
    for sentence in describe_owners(found, time.time(), executor.on):
        say(sentence)
    others = bool(found) and not mine
    own = f"deployer agents down {path} --mine{config.on_option} ends only your own"
    if others and not call.is_sure("end and delete these as well?", own):
        say(f"no agents were ended; {own}")
        return
    with collect_refusals() as refusals:
        with showing_busy(), report_slow_stop(executor, path):
            ended = end_willing_agents(executor, path, refusals, everyone=others)
        if ended or not refusals:
            nothing = f"nothing of {path} was found on {executor.place}"
            if not ended and not Records.load().of(path):
                raise AgentError(nothing, _name_elsewhere(executor, path))
            show_ended(path, ended, call.output, nothing)
            if not ended:
                for line in describe_elsewhere(executor, path):
                    say(line)
    for line in describe_others_here(config, path) if sweep is None else ():
        say(line)


def _name_elsewhere(executor: Executor, path: str) -> str:
    if executor.runs_here:
        return f"if its agents are in a cluster: deployer down {path} --on kubernetes"
    return f"deployer agents list --all --on {executor.on}"


def _start(
    call: Call,
    sweep: str | None,
    replicas: int | None,
    one_run: bool = False,
    max_seconds: float | None = None,
    pending_seconds: float | None = None,
    surplus_leaves: bool = False,
) -> None:
    """Connect, start what is missing unless the sweep has ended, show all."""
    config, server, path = call.connect(sweep, replicas)
    say(f"using {server.describe()}")
    with showing_busy():
        launch = add_agents(config, server, path, one_run=one_run, max_seconds=max_seconds)
        drain_surplus(launch, replicas if surplus_leaves else None)
    say_what_begins_later(launch)
    if replicas is None or len(launch.agents) <= replicas:
        _say_if_idle(launch)
    if pending_seconds is not None and launch.agents:
        wait_until_started(launch, pending_seconds)
    _show(call, launch.executor, path)


def _show(call: Call, executor: Executor, path: SweepPath) -> None:
    show_agents(executor.list_agents(str(path)), call.output, time.time())


def _say_if_idle(launch: Launch) -> None:
    """If no agent was started because enough are present, say so."""
    there = launch.agents
    if not there or launch.started:
        return
    foreign = [agent for agent in there if agent.foreign]
    owners = ", ".join(sorted({agent.owner for agent in foreign}))
    whose = f", {len(foreign)} of {owners}" if foreign else ""
    are = f"{format_count(len(there), 'agent')} already {'exists' if len(there) == 1 else 'exist'}"
    more = f"deployer agents up {launch.path} --replicas {len(there) + 1}"
    say(f"started no agent: {are}{whose}; for one more: {more}{launch.project.on_option}")


def _read_runs(call: Call, path: SweepPath) -> Sequence[Run]:
    """Return the sweep's runs, by which idle agents are told; none if the server is away."""
    try:
        _, server, _ = call.connect(str(path))
        return list_runs(server.client, path)
    except WandbError as error:
        warn(f"busy agents may be drained before idle ones: {error.message}")
        return ()
