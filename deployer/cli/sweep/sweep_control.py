"""`deployer sweep pause|resume|stop|cancel`: what a sweep that is there does next."""

from __future__ import annotations

import time

import typer

from deployer.cli.output.agent_views import describe_others
from deployer.cli.output.render import say, warn
from deployer.cli.shell.call import Call
from deployer.cli.shell.options import SweepArgument
from deployer.config.project import LOCAL, Project
from deployer.errors import CloudError, DeployerError, WandbError
from deployer.executors.registry import find_executor, list_names
from deployer.launch.agents.scaling import drain_all
from deployer.launch.agents.stop_notice import tell_which_runs_stop
from deployer.launch.remains import Place
from deployer.model import ENDED_SWEEP_STATES, SweepPath
from deployer.sweeps.records import Records
from deployer.text import format_count
from deployer.wandb_api.operations import (
    get_creator,
    get_snapshot,
    get_sweep,
    set_sweep_state,
)
from deployer.wandb_api.server import Server
from deployer.watch.status import count_other_agents

# What a sweep may be when it gets a new state; one that has ended stays so.
STEERABLE = {
    "PAUSED": ("RUNNING", "PAUSED", "PENDING"),
    "RUNNING": ("RUNNING", "PAUSED", "PENDING"),
    "FINISHED": ("RUNNING", "PAUSED", "PENDING", "FINISHED"),
    "CANCELED": ("RUNNING", "PAUSED", "PENDING", "CANCELED"),
}


def pause(call: Call, sweep: SweepArgument = None) -> None:
    """Hand out no more runs; those under way finish, and agents wait until the sweep is resumed.

    Asks first if other owners' agents work on it, as `resume`, `stop` and `cancel` do.
    """
    config, _, path = _steer(call, sweep, "PAUSED")
    if agents := sum(agent.alive for agent in find_executor(config).list_agents(str(path))):
        _say_held(path, agents)
    show_state(call, path, "PAUSED")


def resume(call: Call, sweep: SweepArgument = None) -> None:
    """Hand out runs again after a pause."""
    show_state(call, _steer(call, sweep, "RUNNING")[-1], "RUNNING")


def stop(call: Call, sweep: SweepArgument = None) -> None:
    """End the sweep: hand out no more runs; those under way finish.

    Asks first if it was not made from here, as `cancel` does.
    """
    show_state(call, _steer(call, sweep, "FINISHED")[-1], "FINISHED")


def cancel(call: Call, sweep: SweepArgument = None) -> None:
    """End the sweep now and kill its runs under way; its agents leave."""
    config, server, path = _steer(call, sweep, "CANCELED")
    tell_which_runs_stop(server, path)
    try:
        drain_all(find_executor(config), path)
    except DeployerError as error:  # they leave by themselves
        warn(f"a watcher may start its agents again after `heal`: {error.message}")
    show_state(call, path, "CANCELED")


def _steer(call: Call, sweep: str | None, state: str) -> tuple[Project, Server, SweepPath]:
    """Set a sweep's state unless it has it; a sweep that ended can only end.

    Where other owners' agents work on it, or it ends and was not made from here, only if the user
    is sure. Raises ConfigError, WandbError.
    """
    config, server, path = call.connect(sweep)
    say(f"using {server.describe()}")
    info = get_sweep(server.client, path)
    if info.state not in STEERABLE[state]:
        raise WandbError(
            f"{path}: a sweep that is {info.state} cannot become {state}",
            "deployer up FILE --new makes another" if info.ended else "",
        )
    if info.state != state:
        concerned = concerns_others(config, server, path)
        if state in ENDED_SWEEP_STATES and not _is_from_here(server, path):
            say(f"{path} was {describe_maker(server, path)}")
            concerned = True
        if concerned and not call.is_sure(f"make it {state}?"):
            say(f"{path} stays {info.state}")
            raise typer.Exit
        set_sweep_state(server.client, info, state)
    say(f"{path} is {state}")
    return config, server, path


def describe_maker(server: Server, path: SweepPath) -> str:
    """Say who made a sweep, as far as the server tells, and whether that was from here."""
    creator = get_creator(server.client, path)
    by = f" by {creator}" if creator else ""
    where = "" if _is_from_here(server, path) else " elsewhere"
    return f"made{by}{where}" if by or where else ""


def _is_from_here(server: Server, path: SweepPath) -> bool:
    return any(one.is_on(server) for one in Records.load().of(str(path)))


def concerns_others(config: Project, server: Server, path: SweepPath) -> bool:
    """Name other owners' agents of a sweep; return True if there are any, or that is unknown.

    The server knows them all; where agents were started from here tells whose they are.
    """
    concerned, known = False, set[str]()
    for on, context, namespace in _list_places(config, server, path):
        try:
            there = config.with_cluster(context, namespace) if namespace else config
            executor = find_executor(there, on)
            known.update(agent.name for agent in executor.list_agents(str(path)))
            others = executor.list_others(str(path))
            found = [one for one in others if one.agents]
        except DeployerError as error:
            if isinstance(error, CloudError) and error.reason == "NOT_FOUND":
                continue  # a cluster that is gone has no agents
            say(f"not checked whether others' agents work on it: {error.message}")
            concerned = True
            continue
        for sentence in describe_others(found, time.time(), executor.on):
            say(sentence)
        concerned = concerned or bool(found)
    beating = get_snapshot(server.client, path).agents
    if count := count_other_agents(beating, known, time.time()):
        say(f"{format_count(count, 'agent')} at work on it, not started from here")
    return concerned or count > 0


def _list_places(config: Project, server: Server, path: SweepPath) -> list[Place]:
    """Return where agents of a sweep may have been started from here."""
    places = {record.place for record in Records.load().of(str(path))}
    places |= {(on, "", "") for on in (config.on, LOCAL, server.inside.on if server.inside else "")}
    return sorted(place for place in places if place[0] in list_names())


def show_state(call: Call, path: SweepPath, state: str) -> None:
    """Show a sweep's new state as JSON, if that is asked for."""
    call.emit({"sweep": str(path), "state": state})


def _say_held(path: SweepPath, agents: int) -> None:
    """Say what a pause leaves as it is, and the command that ends it."""
    said = "ends its run, then waits and holds its GPU" if agents == 1 else ""
    said = said or "end their run, then wait and hold their GPUs"
    say(f"{format_count(agents, 'agent')} {said}. Free them: deployer agents down {path}")
