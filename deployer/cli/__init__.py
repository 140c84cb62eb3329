"""The command line: a command loads, calls, renders. Commands are imported when they are used."""

from __future__ import annotations

import typer

from deployer.cli.command_table import LazyGroup

app = typer.Typer(
    cls=LazyGroup,
    help="Run a Weights & Biases sweep on this machine or a cluster, with one command.",
    rich_markup_mode=None,
)


@app.callback()
def _root() -> None:
    """Keep the group a group: Typer needs a callback where no command is registered."""
