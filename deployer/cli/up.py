"""`deployer up`: the whole way from a sweep file to a ranking."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from deployer.cli.following import follow, report
from deployer.cli.options import (
    EntityOption,
    FileArgument,
    OnOption,
    OutputOption,
    ProjectOption,
    ReplicasOption,
    RunCapOption,
    SeedOption,
    WandbOption,
    check_output,
    read_config,
)
from deployer.config import Flags
from deployer.making import make_sweep
from deployer.render import say, show_json
from deployer.server import connect
from deployer.sweep import load_sweep
from deployer.up import apply_plan, open_place, plan_agents

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
    sweep = load_sweep(file, run_cap)
    for warning in sweep.warnings:
        say(f"warning: {warning}")
    server = connect(config)
    say(f"using {server.describe()}")
    made = make_sweep(
        server, sweep, config, file=file, continued=not new, seed=seed, now=time.time()
    )
    for warning in made.warnings:
        say(f"warning: {warning}")
    say(f"{'created' if made.created else 'continuing'} sweep {made.path}")
    say(f"results page: {server.sweep_url(made.path)}")
    place = open_place(config.on)
    agents = apply_plan(
        server, place, plan_agents(server, place, made.path, config.replicas, config.folder)
    )
    if detach:
        say(f"{len(agents)} agents run. Come back: deployer watch {made.path}")
        if output == "json":
            show_json({"sweep": str(made.path), "agents": [a.name for a in agents]})
        return
    status = follow(
        server, place, made.path, expected=sweep.expected, plain=wait or output == "json"
    )
    report(server, made.path, status.results, output)
