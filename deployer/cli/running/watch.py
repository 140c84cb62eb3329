"""`deployer watch`: the live view alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from deployer.cli.output.render import say
from deployer.cli.running.live_view import follow_and_report
from deployer.cli.shell.command_group import make_app
from deployer.cli.shell.options import (
    OnOption,
    Output,
    OutputOption,
    PendingTimeoutOption,
    PlainOption,
    SweepArgument,
    WandbOption,
    pick_sweep,
    read_config_of,
    read_duration,
)
from deployer.config.project import Flags
from deployer.errors import ConfigError
from deployer.executors.registry import find_executor
from deployer.launch.remains import describe_agents, telling_remains
from deployer.launch.resolution import open_sweep
from deployer.launch.starting import Launch

app = make_app()


@app.command()
def watch(
    sweep: SweepArgument = None,
    plain: PlainOption = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            parser=read_duration,
            help="How long to watch, such as 30m; exit code 4 after it.",
        ),
    ] = None,
    pending_timeout: PendingTimeoutOption = None,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a sweep live until it is over, then its ranking.

    Exit codes as for up; 4 if --timeout has passed and the sweep goes on.
    """
    config = read_config_of(sweep, Flags(wandb=wandb, on=on))
    server, path = open_sweep(pick_sweep(sweep, config))
    for line in server.page_lines(path):
        say(line)
    launch = Launch(config, find_executor(config), server, path)
    here = [(str(path), config.on)]

    def describe(failure: BaseException) -> Iterable[str]:
        wrong = isinstance(failure, ConfigError)  # nothing can be asked
        return () if wrong else describe_agents(config, here, failure)

    with telling_remains(describe):
        follow_and_report(
            launch, output, plain=plain, timeout_seconds=timeout, pending_seconds=pending_timeout
        )
