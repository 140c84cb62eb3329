"""`deployer sweep`: create, list and control sweeps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from deployer.cli import sweep_check, sweep_files
from deployer.cli.command_group import make_app
from deployer.cli.confirmation import YesOption, check_can_ask, confirm
from deployer.cli.options import (
    EntityOption,
    FileArgument,
    NoCheckOption,
    OnOption,
    Output,
    OutputOption,
    ProjectOption,
    RetriesOption,
    RunCapOption,
    SeedOption,
    SweepArgument,
    WandbOption,
    pick_sweep,
    read_config,
    read_config_of,
)
from deployer.cli.output.render import say, show, show_json, show_table
from deployer.cli.output.views import show_sweep, sweep_to_plain
from deployer.config.project import Flags, Project
from deployer.errors import AgentError, DeployerError, WandbError
from deployer.executors.base import Agent
from deployer.executors.registry import open_executor
from deployer.launch.one_run_per_job import takes_one_run
from deployer.launch.request import Request
from deployer.launch.resolution import open_sweep
from deployer.launch.script import check_script_first
from deployer.launch.server import connect
from deployer.launch.stop_notice import tell_which_runs_stop, tell_who_lasts
from deployer.outputs.kept_here import delete_here, measure_here
from deployer.sweeps.creation import Draws, make_sweep
from deployer.sweeps.records import delete_records
from deployer.sweeps.rerun import get_whole_snapshot
from deployer.sweeps.sweep_file import load_sweep
from deployer.text import format_bytes, format_count
from deployer.wandb_api.model import SweepPath
from deployer.wandb_api.operations import (
    delete_sweep,
    get_sweep,
    list_projects,
    list_sweeps,
    set_sweep_state,
)
from deployer.wandb_api.server import NOT_GUARANTEED, Server

app = make_app("Check, create, list and control sweeps.")
app.command()(sweep_check.check)
app.command()(sweep_check.schema)
app.command("import")(sweep_files.import_)
app.command("export")(sweep_files.export)

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
    no_check: NoCheckOption = False,
    on: OnOption = None,
    wandb: WandbOption = None,
    entity: EntityOption = None,
    project: ProjectOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a sweep and print its path.

    The embedded backend is where its agents will be: --on.
    """
    config = read_config(Flags(wandb=wandb, entity=entity, project=project, on=on))
    sweep = load_sweep(file, run_cap)
    for warning in sweep.warnings:
        say(f"warning: {warning}")
    request = Request(file, sweep, draws=Draws(seed, retries), check_script=not no_check)
    check_script_first(config, request, say)
    server = connect(config, say)
    say(f"using {server.describe()}")
    now, draws = time.time(), request.draws
    made = make_sweep(server, sweep, config, file=file, continued=False, draws=draws, now=now)
    for warning in made.warnings:
        say(f"warning: {warning}")
    page = server.sweep_url(made.path)
    say(f"results page: {page}")
    if output == "json":
        show_json({"sweep": str(made.path), "page": page})
    else:
        show(str(made.path))


@app.command("list")
def list_(
    on: OnOption = None,
    wandb: WandbOption = None,
    entity: EntityOption = None,
    project: ProjectOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List sweeps, newest first: a project's, or without --project those of all projects."""
    config = read_config(Flags(wandb=wandb, entity=entity, project=project, on=on))
    server = connect(config, say)
    owner = config.entity_for(None, server.viewer.entity)
    chosen = config.project or config.file_project
    names = (chosen,) if chosen else list_projects(server.client, owner)
    found = [sweep for name in names for sweep in list_sweeps(server.client, owner, name)]
    found.sort(key=lambda sweep: sweep.created_at or 0.0, reverse=True)
    if output == "json":
        show_json([sweep_to_plain(info) for info in found])
        return
    if not found:
        say(f"no sweeps of {owner}{f' in project {chosen}' if chosen else ''}")
        say("hint: deployer up FILE")
        return
    columns = ("SWEEP", "STATE", "METHOD", "RUNS", "TITLE")
    show_table(columns, [(str(i.path), i.state, i.method, i.run_count, i.title) for i in found])


@app.command("show")
def show_(
    sweep: SweepArgument = None,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show one sweep: its state, runs, agents and address."""
    config = read_config_of(sweep, Flags(wandb=wandb, on=on))
    server, path = open_sweep(pick_sweep(sweep, config))
    snapshot = get_whole_snapshot(server, path)
    show_sweep(snapshot, _list_agents(config, path), server.sweep_url(path), output)


def _list_agents(config: Project, path: SweepPath) -> Sequence[Agent] | None:
    """Return a sweep's agents; None, and a warning, where they cannot be asked for."""
    try:
        return open_executor(config).list_agents(str(path))
    except DeployerError as error:
        say(f"warning: its agents are not known: {error.message}")
        return None


@app.command()
def pause(
    sweep: SweepArgument = None,
    release: Annotated[
        bool,
        typer.Option("--release", help="Interrupt its agents too: their GPUs are free."),
    ] = False,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Hand out no more runs; those under way finish, and agents wait until the sweep is resumed."""
    config = read_config_of(sweep, Flags(wandb=wandb, on=on))
    server, path = _steer(sweep, config, "PAUSED")
    executor = open_executor(config)
    agents = [agent for agent in executor.list_agents(str(path)) if agent.alive]
    if release:
        with tell_who_lasts(executor, str(path), say):
            released = executor.release(str(path))
        _say_released(server, path, agents, released)
    elif agents:
        _say_held(path, len(agents))
    _show_state(path, "PAUSED", output)


@app.command()
def resume(
    sweep: SweepArgument = None,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Hand out runs again after a pause; released agents are started by `agents up`."""
    config = read_config_of(sweep, Flags(wandb=wandb, on=on))
    _, path = _steer(sweep, config, "RUNNING")
    if released := open_executor(config).count_paused(str(path)):
        say(f"{format_count(released, 'agent')} were released: deployer agents up {path}")
    _show_state(path, "RUNNING", output)


@app.command()
def stop(
    sweep: SweepArgument = None,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """End the sweep: hand out no more runs; those under way finish."""
    _, path = _steer(sweep, read_config(Flags(wandb=wandb, on=on)), "FINISHED")
    _show_state(path, "FINISHED", output)


@app.command()
def cancel(
    sweep: SweepArgument = None,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """End the sweep now and kill its runs under way."""
    server, path = _steer(sweep, read_config(Flags(wandb=wandb, on=on)), "CANCELED")
    tell_which_runs_stop(server, path, say)
    _show_state(path, "CANCELED", output)


@app.command()
def delete(
    sweep: Annotated[
        str,
        typer.Argument(metavar="SWEEP", help="ENTITY/PROJECT/SWEEP_ID, a short id or an address."),
    ],
    yes: YesOption = False,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a sweep for good; its runs stay in the project.

    What its runs have written to DEPLOYER_OUTPUT_DIR on this machine goes with it.
    On the embedded backend alone: W&B's own servers do it on the sweep's page.
    """
    check_can_ask(yes)
    config = read_config_of(sweep, Flags(wandb=wandb, on=on))
    server, path = open_sweep(pick_sweep(sweep, config))
    say(f"using {server.describe()}")
    info = get_sweep(server.client, path)
    if living := [a.name for a in open_executor(config).list_agents(str(path)) if a.alive]:
        there = f"{path}: its agents are still there: {', '.join(living)}"
        raise AgentError(there, f"deployer down {path}")
    outputs = measure_here(path.sweep_id)
    gone = f", their outputs on this machine go: {format_bytes(outputs)}" if outputs else ""
    what = f"sweep {path} for good ({format_count(info.run_count, 'run')} of it stay{gone})"
    if not yes and not confirm(f"delete {what}?"):
        say("nothing was deleted")
        return
    delete_sweep(server.client, path)
    delete_here(path.sweep_id)
    meant = (str(path), server.name)
    delete_records(lambda record: (record.sweep_path, record.server) == meant)
    say(f"{path} is deleted")
    _show_state(path, "DELETED", output)


def _steer(text: str | None, config: Project, state: str) -> tuple[Server, SweepPath]:
    """Set a sweep's state unless it has it; a sweep that ended can only end."""
    server, path = open_sweep(pick_sweep(text, config))
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
    return server, path


def _show_state(path: SweepPath, state: str, output: str) -> None:
    if output == "json":
        show_json({"sweep": str(path), "state": state})


def _say_held(path: SweepPath, agents: int) -> None:
    """Say what a pause leaves as it is, and the command that ends it."""
    said = "ends its run, then waits and holds its GPU" if agents == 1 else ""
    said = said or "end their run, then wait and hold their GPUs"
    say(f"{format_count(agents, 'agent')} {said}. Free them: deployer sweep pause {path} --release")


def _say_released(
    server: Server, path: SweepPath, agents: Sequence[Agent], released: Sequence[str]
) -> None:
    """Say that agents are gone, what becomes of their runs, and how all goes on."""
    if released and not server.extended:
        say(NOT_GUARANTEED)
    again = f"deployer sweep resume {path}, then deployer agents up {path}"
    if any(map(takes_one_run, agents)):
        again += " --one-run-per-job"
    said = "released, their runs go on when they are handed out again"
    say(f"{format_count(len(released), 'agent')} {said}: {again}")
