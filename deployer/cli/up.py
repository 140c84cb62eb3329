"""`deployer up`: the whole way from a sweep file to a ranking."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.agent_start import check_reach, say_what_begins_later, start_agents
from deployer.cli.cloud import Limits, closing, prepare_executor
from deployer.cli.command_group import make_app
from deployer.cli.live_view import follow_and_report
from deployer.cli.options import (
    CapacityOption,
    EntityOption,
    FileArgument,
    MaxTimeOption,
    OneRunOption,
    OnOption,
    Output,
    OutputOption,
    PlainOption,
    ProjectOption,
    ReplicasOption,
    RetriesOption,
    RunCapOption,
    SeedOption,
    StartTimeoutOption,
    WandbOption,
    read_config,
)
from deployer.cli.output.render import say, show_json
from deployer.config.settings import Config, Flags
from deployer.errors import ConfigError
from deployer.executors.base import Agent, Executor
from deployer.executors.registry import open_executor
from deployer.launch.agents import check_program_here, plan_draft, warn_about_code
from deployer.launch.one_run_per_job import takes_one_run
from deployer.launch.patience import ask_patiently
from deployer.launch.resolution import settle_executor
from deployer.launch.server import connect
from deployer.sweeps.creation import Draws, MadeSweep, make_sweep
from deployer.sweeps.sweep_file import Sweep, load_sweep
from deployer.text import format_count
from deployer.wandb_api.model import SweepPath
from deployer.wandb_api.operations import get_sweep
from deployer.wandb_api.server import NOT_GUARANTEED, Server

app = make_app()

DetachOption = Annotated[bool, typer.Option("--detach", help="Return once the agents run.")]
NewOption = Annotated[
    bool, typer.Option("--new", help="Make another sweep though one is unfinished.")
]
DownAfterOption = Annotated[
    bool,
    typer.Option(
        "--down-after", help="After the end, delete what was made; with --on gke the cluster."
    ),
]


@app.command()
def up(
    file: FileArgument,
    replicas: ReplicasOption = None,
    plain: PlainOption = False,
    detach: DetachOption = False,
    new: NewOption = False,
    run_cap: RunCapOption = None,
    seed: SeedOption = None,
    retries: RetriesOption = None,
    one_run_per_job: OneRunOption = False,
    max_time: MaxTimeOption = None,
    start_timeout: StartTimeoutOption = None,
    down_after: DownAfterOption = False,
    wait_for_capacity: CapacityOption = None,
    on: OnOption = None,
    wandb: WandbOption = None,
    entity: EntityOption = None,
    project: ProjectOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run a sweep to its end: create or continue it, start agents, watch, rank.

    Exit code 0 only if every configuration is finished, else 3. Ctrl-C detaches.
    """
    config = _read_config(Flags(wandb, entity, project, replicas, on), detach, down_after)
    sweep = load_sweep(file, run_cap)
    draws, limits = Draws(seed, retries), Limits(max_time, wait_for_capacity, one_run_per_job)
    server, path = _make(file, sweep, config, draws=draws, continued=not new, limits=limits)
    config = settle_executor(
        str(path), config
    )  # a sweep that goes on may have its agents elsewhere
    executor = open_executor(config.on)

    def start() -> Sequence[Agent]:
        info = get_sweep(server.client, path)
        return start_agents(
            server, executor, info, config, one_run=one_run_per_job, max_seconds=max_time
        )

    agents = ask_patiently(server, start, say)
    if detach:
        _say_how_to_come_back(path, agents, output)
        say_what_begins_later(server, path, agents)
        return
    given = None if any(map(takes_one_run, agents)) else config.given_replicas
    wanted = given or len(agents)
    with closing(config, executor, path, take_down=down_after):
        follow_and_report(
            config,
            server,
            executor,
            path,
            output,
            plain=plain,
            wanted=wanted,
            expected=sweep.expected,
            start_seconds=start_timeout,
        )


def _read_config(flags: Flags, detach: bool, down_after: bool) -> Config:
    """Read the config; raises ConfigError if what somebody needs would be taken down after."""
    if detach and down_after:
        raise ConfigError("--down-after", "somebody has to see the end", "leave out --detach")
    config = read_config(flags)
    if down_after and config.embedded and config.on == "gke":
        said = "the embedded backend keeps the results in the cluster, which would be deleted"
        raise ConfigError("--down-after", said, "leave it out, or use --wandb ADDRESS")
    return config


def _make(
    file: Path, sweep: Sweep, config: Config, *, draws: Draws, continued: bool, limits: Limits
) -> tuple[Server, SweepPath]:
    """Connect, prepare the place, make or continue the sweep; say each in a line."""
    check_program_here(config.on, sweep.config, config.folder, str(file))
    if warning := warn_about_code(config.on, config.folder):
        say(f"warning: {warning}")
    server, executor = _open(config, limits)
    executor.check(plan_draft(server, config.folder))
    say(f"using {server.describe()}")
    if not server.extended:
        say(NOT_GUARANTEED)

    def make() -> MadeSweep:
        now = time.time()
        return make_sweep(
            server, sweep, config, file=file, continued=continued, draws=draws, now=now
        )

    made = ask_patiently(server, make, say)
    for warning in (*sweep.warnings, *made.warnings):
        say(f"warning: {warning}")
    say(f"{'created' if made.created else 'continuing'} sweep {made.path}")
    say(f"results page: {server.sweep_url(made.path)}{server.login_hint}")
    return server, made.path


def _open(config: Config, limits: Limits) -> tuple[Server, Executor]:
    """Connect, then prepare the place, which may cost money; a server in that place comes after."""
    if config.embedded and config.backend_on != "local":
        executor = prepare_executor(config, limits)
        return connect(config, say), executor
    server = connect(config)
    check_reach(config.on, server.url)
    return server, prepare_executor(config, limits)


def _say_how_to_come_back(path: SweepPath, agents: Sequence[Agent], output: str) -> None:
    starting = sum(agent.state == "starting" for agent in agents)
    state = f", {starting} of them starting" if starting else " at work"
    say(f"{format_count(len(agents), 'agent')}{state}")
    say(f"come back: deployer watch {path}")
    if output == "json":
        show_json({"sweep": str(path), "agents": [agent.name for agent in agents]})
