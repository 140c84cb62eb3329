"""`deployer sweep`: make, list and steer sweeps."""

from __future__ import annotations

import time

import typer

from deployer.cli.options import (
    EntityOption,
    FileArgument,
    OutputOption,
    ProjectOption,
    RetriesOption,
    RunCapOption,
    SeedOption,
    SweepArgument,
    WandbOption,
    check_output,
    pick_sweep,
    read_config,
)
from deployer.config import Flags
from deployer.errors import WandbError
from deployer.healing import get_whole_snapshot
from deployer.making import Draws, make_sweep
from deployer.render import say, show, show_json, show_table
from deployer.selection import open_sweep
from deployer.server import connect
from deployer.views import show_sweep, sweep_to_plain
from deployer.wandb_api import get_sweep, list_projects, list_sweeps, set_sweep_state

app = typer.Typer(rich_markup_mode=None, help="Create, list and steer sweeps.")

# What a sweep may be when it gets a new state; one that has ended stays so.
STEERABLE = {
    "PAUSED": ("RUNNING", "PAUSED", "PENDING"),
    "RUNNING": ("RUNNING", "PAUSED", "PENDING"),
    "FINISHED": ("RUNNING", "PAUSED", "PENDING", "FINISHED"),
    "CANCELED": ("RUNNING", "PAUSED", "PENDING", "CANCELED"),
}


@app.command()
def create(
    file: FileArgument,
    run_cap: RunCapOption = None,
    seed: SeedOption = None,
    retries: RetriesOption = None,
    wandb: WandbOption = None,
    entity: EntityOption = None,
    project: ProjectOption = None,
    output: OutputOption = "table",
) -> None:
    """Make a sweep; stdout has only its path."""
    from deployer.sweep import load_sweep

    check_output(output)
    config = read_config(Flags(wandb=wandb, entity=entity, project=project))
    sweep = load_sweep(file, run_cap)
    server = connect(config)
    say(f"using {server.describe()}")
    draws = Draws(seed, retries)
    made = make_sweep(
        server, sweep, config, file=file, continued=False, draws=draws, now=time.time()
    )
    for warning in (*sweep.warnings, *made.warnings):
        say(f"warning: {warning}")
    page = server.sweep_url(made.path)
    say(f"results page: {page}")
    if output == "json":
        show_json({"sweep": str(made.path), "page": page})
    else:
        show(str(made.path))


@app.command("list")
def list_(
    wandb: WandbOption = None,
    entity: EntityOption = None,
    project: ProjectOption = None,
    output: OutputOption = "table",
) -> None:
    """List sweeps, newest first: a project's, or without --project those of all projects."""
    check_output(output)
    config = read_config(Flags(wandb=wandb, entity=entity, project=project))
    server = connect(config)
    owner = config.entity_for(None, server.viewer.entity)
    chosen = config.project or config.file_project
    names = (chosen,) if chosen else list_projects(server.client, owner)
    found = [sweep for name in names for sweep in list_sweeps(server.client, owner, name)]
    found.sort(key=lambda sweep: sweep.created_at or 0.0, reverse=True)
    if output == "json":
        show_json([sweep_to_plain(info) for info in found])
        return
    columns = ("SWEEP", "STATE", "METHOD", "RUNS", "TITLE")
    show_table(columns, [(str(i.path), i.state, i.method, i.run_count, i.title) for i in found])


@app.command("show")
def show_(
    sweep: SweepArgument = None, wandb: WandbOption = None, output: OutputOption = "table"
) -> None:
    """Show one sweep: its state, runs, agents and address."""
    check_output(output)
    config = read_config(Flags(wandb=wandb))
    server, path = open_sweep(pick_sweep(sweep, config))
    show_sweep(get_whole_snapshot(server, path), server.sweep_url(path), output)


@app.command()
def pause(
    sweep: SweepArgument = None, wandb: WandbOption = None, output: OutputOption = "table"
) -> None:
    """Hand out no more runs; agents stay and keep their GPU."""
    _steer(sweep, wandb, "PAUSED", output)


@app.command()
def resume(
    sweep: SweepArgument = None, wandb: WandbOption = None, output: OutputOption = "table"
) -> None:
    """Hand out runs again after a pause."""
    _steer(sweep, wandb, "RUNNING", output)


@app.command()
def stop(
    sweep: SweepArgument = None, wandb: WandbOption = None, output: OutputOption = "table"
) -> None:
    """Hand out no more runs, ever; runs under way end by themselves."""
    _steer(sweep, wandb, "FINISHED", output)


@app.command()
def cancel(
    sweep: SweepArgument = None, wandb: WandbOption = None, output: OutputOption = "table"
) -> None:
    """End the sweep now and kill its runs."""
    _steer(sweep, wandb, "CANCELED", output)


def _steer(text: str | None, wandb: str | None, state: str, output: str) -> None:
    """Set a sweep's state unless it has it; a sweep that ended can only end."""
    check_output(output)
    server, path = open_sweep(pick_sweep(text, read_config(Flags(wandb=wandb))))
    say(f"using {server.describe()}")
    info = get_sweep(server.client, path)
    if info.state not in STEERABLE[state]:
        raise WandbError(
            f"{path}: a sweep that is {info.state} cannot become {state}",
            "deployer up FILE --new makes another" if info.ended else "",
        )
    if info.state != state:
        set_sweep_state(server.client, info, state)
    say(f"{path} is {state}")
    if output == "json":
        show_json({"sweep": str(path), "state": state})
