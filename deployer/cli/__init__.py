"""The command line: a command reads options, calls `launch` and shows results. Loaded on use."""

from __future__ import annotations

from typing import Annotated

import typer

from deployer.cli.shell.groups import Root

app = typer.Typer(
    cls=Root,
    help="Run a Weights & Biases sweep on this machine or a cluster with one command.",
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from deployer import __version__
        from deployer.cli.output.render import show

        show(f"deployer {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Keep what `deployer` itself was told."""
