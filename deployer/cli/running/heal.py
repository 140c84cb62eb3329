"""`deployer heal`: run again what is lost or failed."""

from __future__ import annotations

from typing import Annotated

import typer

from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import say
from deployer.cli.shell.call import App, Call
from deployer.cli.shell.options import RetriesOption, SweepArgument
from deployer.launch.code import settle_code
from deployer.launch.pipeline import add_agents
from deployer.model import SweepPath
from deployer.sweeps.rerun import Healing, heal_sweep
from deployer.text import format_count

app = App()


@app.command()
def heal(
    call: Call,
    sweep: SweepArgument = None,
    replicas: Annotated[
        int | None,
        typer.Option("--replicas", metavar="N", min=1, help="Start agents until there are N."),
    ] = None,
    retries: RetriesOption = None,
) -> None:
    """Run what is lost or failed again; where the server cannot, by a follow-up sweep.

    Without --replicas it says which command starts the agents.
    """
    config, server, path = call.connect(sweep, replicas)
    say(f"using {server.describe()}")
    healing = heal_sweep(server, path, retries)
    say(_describe(path, healing))
    going = bool(healing.count or healing.waiting) or healing.sweep_path != path
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
    call.emit(plain)


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
            said += f"; {waiting} not run yet"
    if healing.unknown:
        said += f"; {healing.unknown} were never drawn and stay missing"
    return said
