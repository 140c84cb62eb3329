"""`deployer heal`: run again what is lost or failed."""

from __future__ import annotations

from typing import Annotated

import typer

from deployer.cli.options import (
    OnOption,
    OutputOption,
    RetriesOption,
    SweepArgument,
    WandbOption,
    check_output,
    pick_sweep,
    read_config_of,
)
from deployer.cli.starting import check_reach
from deployer.config import Config, Flags
from deployer.healing import Healing, heal_sweep
from deployer.records import remember_place
from deployer.render import say, show_json
from deployer.selection import open_sweep
from deployer.server import Server
from deployer.up import apply_plan, open_place, plan_agents
from deployer.wandb_api import SweepPath

app = typer.Typer(rich_markup_mode=None)


@app.command()
def heal(
    sweep: SweepArgument = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", min=1, help="Start agents until there are N.")
    ] = None,
    retries: RetriesOption = None,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: OutputOption = "table",
) -> None:
    """Run what is lost or failed again; where the server cannot, by a follow-up sweep.

    Without --replicas it says which command starts the agents.
    """
    check_output(output)
    config = read_config_of(sweep, Flags(wandb=wandb, on=on))
    server, path = open_sweep(pick_sweep(sweep, config))
    say(f"using {server.describe()}")
    healing = heal_sweep(server, path, retries)
    say(_describe(path, healing))
    going = bool(healing.count) or healing.sweep_path != path
    if going and replicas:
        _start(config, server, healing.sweep_path, replicas)
    elif going:
        where = "" if config.on == "local" else f" --on {config.on}"
        said = f"deployer agents up {healing.sweep_path} --replicas N{where}"
        say(f"agents that run them: {said}")
    if going:
        say(f"follow: deployer watch {healing.sweep_path}")
    if output == "json":
        show_json({"original": str(path), **vars(healing), "sweep_path": str(healing.sweep_path)})


def _describe(path: SweepPath, healing: Healing) -> str:
    """Say in one line what will run again, and where."""
    words = f"{healing.count} configuration{'' if healing.count == 1 else 's'}"
    if healing.created:
        said = f"{path}: {words} to run again in the follow-up {healing.sweep_path}"
    elif healing.count:
        said = f"{path}: {words} to run again"
    elif healing.sweep_path != path:
        said = f"{path}: what is missing runs in the follow-up {healing.sweep_path}"
    else:
        said = f"{path}: nothing to run again"
    if healing.unknown:
        said += f"; {healing.unknown} were never drawn and stay missing"
    return said


def _start(config: Config, server: Server, path: SweepPath, replicas: int) -> None:
    check_reach(config.on, server.url)
    place = open_place(config.on)
    plan = plan_agents(server, place, path, replicas, config.folder)
    remember_place(str(path), config.on)
    agents = apply_plan(server, place, plan)
    say(f"{len(agents)} agent{'' if len(agents) == 1 else 's'} at work")
