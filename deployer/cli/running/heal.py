"""`deployer heal`: run again what is lost or failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import say
from deployer.cli.shell.call import App, Call
from deployer.cli.shell.options import RetriesOption, SweepArgument
from deployer.config.project import Project
from deployer.executors.registry import find_executor
from deployer.launch.pipeline import add_agents, settle_code
from deployer.launch.scaling import read_wanted
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
        typer.Option(
            "--replicas",
            metavar="N",
            min=1,
            help="Start agents until N run; default: the sweep's earlier number.",
        ),
    ] = None,
    retries: RetriesOption = None,
) -> None:
    """Run lost and failed configurations again; on W&B's own servers as a follow-up sweep."""
    config, server, path = call.connect(sweep, replicas)
    say(f"using {server.describe()}")
    healing = heal_sweep(server, path, retries)
    say(_describe(path, healing))
    going = bool(healing.count or healing.waiting) or healing.sweep_path != path
    if going:
        config = settle_code(config, str(path))  # the follow-up runs the original's code
        number = replicas or _count_wanted(config, path)
        with showing_busy():
            launch = add_agents(replace(config, replicas=number), server, healing.sweep_path)
        say(f"{format_count(len(launch.agents), 'agent')} started or running")
        say(f"follow: deployer watch {healing.sweep_path}")
    plain = {"original": str(path), **vars(healing), "sweep_path": str(healing.sweep_path)}
    call.emit(plain)


def _count_wanted(config: Project, path: SweepPath) -> int:
    """Return how many agents the sweep was to have; else what deployer.yaml says."""
    wanted = read_wanted(find_executor(config), str(path))
    return (wanted.number if wanted else 0) or config.replicas


def _describe(path: SweepPath, healing: Healing) -> str:
    """Say in one line what will run again, and where."""
    words = format_count(healing.count, "configuration")
    if healing.created:
        said = f"{path}: {words} to run again in the follow-up {healing.sweep_path}"
    elif healing.count:
        said = f"{path}: {words} to run again"
    elif healing.sweep_path != path:
        said = f"{path}: the missing configurations run in the follow-up {healing.sweep_path}"
    else:
        waiting = format_count(healing.waiting, "configuration")
        verb = "is" if healing.waiting == 1 else "are"
        queued = f"{waiting} {verb} queued" if healing.waiting else "nothing to run again"
        said = f"{path}: {queued}"
    if healing.unknown:
        said += f"; {healing.unknown} were never assigned and cannot be repeated"
    return said
