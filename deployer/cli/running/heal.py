"""`deployer heal`: run again what is lost or failed."""

from __future__ import annotations

from typing import Annotated

import typer

from deployer.cli.output.busy import showing_busy
from deployer.cli.output.render import emit, say
from deployer.cli.shell.command_group import make_app
from deployer.cli.shell.options import (
    OnOption,
    Output,
    OutputOption,
    RetriesOption,
    SweepArgument,
    WandbOption,
    pick_sweep,
    read_config_of,
)
from deployer.config.project import Flags
from deployer.launch.code import settle_code
from deployer.launch.pipeline import add_agents
from deployer.launch.resolution import open_sweep
from deployer.model import SweepPath
from deployer.sweeps.rerun import Healing, heal_sweep
from deployer.text import format_count

app = make_app()


@app.command()
def heal(
    sweep: SweepArgument = None,
    replicas: Annotated[
        int | None,
        typer.Option("--replicas", metavar="N", min=1, help="Start agents until there are N."),
    ] = None,
    retries: RetriesOption = None,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run what is lost or failed again; where the server cannot, by a follow-up sweep.

    Without --replicas it says which command starts the agents.
    """
    config = read_config_of(sweep, Flags(wandb=wandb, replicas=replicas, on=on))
    server, path = open_sweep(pick_sweep(sweep, config))
    say(f"using {server.describe()}")
    healing = heal_sweep(server, path, retries)
    say(_describe(path, healing))
    going = bool(healing.count) or healing.sweep_path != path
    if going and replicas:
        config = settle_code(config, str(path))  # the follow-up runs the original's code
        with showing_busy():
            launch = add_agents(config, server, healing.sweep_path)
        say(f"{format_count(len(launch.agents), 'agent')} at work")
    elif going:
        said = f"deployer agents up {healing.sweep_path} --replicas N{config.on_option}"
        say(f"agents that run them: {said}")
    if going:
        say(f"follow: deployer watch {healing.sweep_path}")
    plain = {"original": str(path), **vars(healing), "sweep_path": str(healing.sweep_path)}
    emit(plain, output)


def _describe(path: SweepPath, healing: Healing) -> str:
    """Say in one line what will run again, and where."""
    words = format_count(healing.count, "configuration")
    if healing.created:
        said = f"{path}: {words} to run again in the follow-up {healing.sweep_path}"
    elif healing.count:
        said = f"{path}: {words} to run again"
    elif healing.sweep_path != path:
        said = f"{path}: what is missing runs in the follow-up {healing.sweep_path}"
    else:
        said = f"{path}: nothing to run again"
        if healing.waiting:
            waiting = format_count(healing.waiting, "configuration")
            said += f"; {waiting} not run yet: deployer agents up {path} starts an agent"
    if healing.unknown:
        said += f"; {healing.unknown} were never drawn and stay missing"
    return said
