"""`deployer up`: the whole way from a sweep file to a ranking."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.following import follow, report
from deployer.cli.options import (
    EntityOption,
    FileArgument,
    OneRunOption,
    OnOption,
    OutputOption,
    ProjectOption,
    ReplicasOption,
    RetriesOption,
    RunCapOption,
    SeedOption,
    WandbOption,
    check_output,
    choose_bound,
    read_config,
)
from deployer.cli.starting import (
    check_reach,
    count_agents,
    say_before_start,
    say_what_begins_later,
    want_one_run,
)
from deployer.config import Config, Flags
from deployer.making import Draws, make_sweep
from deployer.place import Agent, Place
from deployer.records import remember_place
from deployer.render import say, show_json
from deployer.selection import settle_place
from deployer.server import NOT_GUARANTEED, Server, connect
from deployer.sweep import Sweep, load_sweep
from deployer.up import (
    apply_plan,
    open_place,
    plan_agents,
    plan_draft,
    warn_about_code,
    warn_about_deadline,
    warn_about_program,
)
from deployer.wandb_api import SweepPath, get_sweep

app = typer.Typer(rich_markup_mode=None)


@app.command()
def up(
    file: FileArgument,
    replicas: ReplicasOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Plain lines, no live view.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Return once the agents run.")] = False,
    new: Annotated[
        bool, typer.Option("--new", help="Make another sweep though one is unfinished.")
    ] = False,
    run_cap: RunCapOption = None,
    seed: SeedOption = None,
    retries: RetriesOption = None,
    one_run_per_job: OneRunOption = False,
    on: OnOption = None,
    wandb: WandbOption = None,
    entity: EntityOption = None,
    project: ProjectOption = None,
    output: OutputOption = "table",
) -> None:
    """Run a sweep to its end: create or continue it, start agents, watch, rank.

    Exit code 0 only if every configuration is finished, else 3. Ctrl-C detaches.
    """
    check_output(output)
    config = read_config(Flags(wandb, entity, project, replicas, on))
    place = open_place(config.on)
    server, sweep, path = _make(
        file, config, place, run_cap=run_cap, draws=Draws(seed, retries), continued=not new
    )
    config = settle_place(str(path), config)
    place = open_place(config.on)  # a sweep that goes on may have its agents elsewhere
    one_run = want_one_run(place, path, one_run_per_job)
    bound = choose_bound(config, one_run)
    plan = plan_agents(server, place, path, bound, config.folder, one_run=one_run)
    if one_run and (warning := warn_about_deadline(config.on, config.folder)):
        say(f"warning: {warning}")
    say_before_start(server, get_sweep(server.client, path), len(plan.agents))
    remember_place(str(path), config.on)
    agents = apply_plan(server, place, plan)
    if detach:
        _say_how_to_come_back(path, agents, output)
        if one_run:
            say_what_begins_later(server, path, len(agents))
        return
    plain = wait or output == "json"
    follow(
        server,
        place,
        path,
        wanted=len(plan.agents) if one_run else config.given_replicas or len(plan.agents),
        folder=config.folder,
        expected=sweep.expected,
        plain=plain,
    )
    report(server, place, path, sweep.expected, output)


def _make(
    file: Path, config: Config, place: Place, *, run_cap: int | None, draws: Draws, continued: bool
) -> tuple[Server, Sweep, SweepPath]:
    """Read the file, connect, make or continue the sweep, and say each in one line."""
    sweep = load_sweep(file, run_cap)
    if config.on == "local" and (warning := warn_about_program(sweep, config.folder)):
        say(f"warning: {warning}")
    if warning := warn_about_code(config.on, config.folder):
        say(f"warning: {warning}")
    server = connect(config)
    check_reach(config.on, server.url)
    place.check(plan_draft(server, config.folder))
    say(f"using {server.describe()}")
    if not server.extended:
        say(NOT_GUARANTEED)
    made = make_sweep(
        server, sweep, config, file=file, continued=continued, draws=draws, now=time.time()
    )
    for warning in (*sweep.warnings, *made.warnings):
        say(f"warning: {warning}")
    say(f"{'created' if made.created else 'continuing'} sweep {made.path}")
    say(f"results page: {server.sweep_url(made.path)}{server.login_hint}")
    return server, sweep, made.path


def _say_how_to_come_back(path: SweepPath, agents: Sequence[Agent], output: str) -> None:
    starting = sum(agent.state == "starting" for agent in agents)
    state = f", {starting} of them starting" if starting else " at work"
    say(f"{count_agents(len(agents))}{state}")
    say(f"come back: deployer watch {path}")
    if output == "json":
        show_json({"sweep": str(path), "agents": [agent.name for agent in agents]})
