"""`deployer results`: ranking, coverage and failures of a sweep, at any time."""

from __future__ import annotations

import typer

from deployer.cli.following import show_outcome
from deployer.cli.options import (
    RankingOption,
    SweepArgument,
    WandbOption,
    check_output,
    pick_sweep,
    read_config,
)
from deployer.config import Flags
from deployer.results import build_results
from deployer.selection import open_sweep
from deployer.wandb_api import get_snapshot

app = typer.Typer(rich_markup_mode=None)


@app.command()
def results(
    sweep: SweepArgument = None,
    wandb: WandbOption = None,
    output: RankingOption = "table",
) -> None:
    """Show a sweep's ranking, coverage and failures."""
    check_output(output, "table", "json", "csv")
    config = read_config(Flags(wandb=wandb))
    server, path = open_sweep(pick_sweep(sweep, config))
    snapshot = get_snapshot(server.client, path)
    show_outcome(server, path, build_results(snapshot.sweep, snapshot.runs), output)
