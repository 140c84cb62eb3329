"""`deployer watch`: the live view alone."""

from __future__ import annotations

from typing import Annotated

import typer

from deployer.cli.live_view import follow_and_report
from deployer.cli.options import (
    OnOption,
    OutputOption,
    PlainOption,
    SweepArgument,
    WandbOption,
    check_output,
    pick_sweep,
    read_config_of,
)
from deployer.config.settings import Flags
from deployer.executors.registry import open_executor
from deployer.launch.resolution import open_sweep

app = typer.Typer(rich_markup_mode=None)


@app.command()
def watch(
    sweep: SweepArgument = None,
    wait: PlainOption = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="Seconds; exit code 4 after them.")
    ] = None,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: OutputOption = "table",
) -> None:
    """Show a sweep live until it is over, then its ranking; exit codes as for up."""
    check_output(output)
    config = read_config_of(sweep, Flags(wandb=wandb, on=on))
    server, path = open_sweep(pick_sweep(sweep, config))
    executor = open_executor(config.on)
    follow_and_report(config, server, executor, path, output, plain=wait, timeout_seconds=timeout)
