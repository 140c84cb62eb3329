"""The command line: a command reads options, calls `launch`, shows. Imported when used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.shell.command_table import LazyGroup

app = typer.Typer(
    cls=LazyGroup,
    help="Run a Weights & Biases sweep on this machine or a cluster, with one command.",
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
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Nothing on stderr but errors; with every command.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Each request on stderr, too; with every command.")
    ] = False,
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            metavar="PATH",
            help="Keep what is told, and each request, in a file, too; with every command.",
        ),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner",
            metavar="NAME",
            envvar="DEPLOYER_OWNER",
            help="The owner of created objects, for a kubeconfig that several people share; "
            "default: the cluster's name for you; with every command.",
        ),
    ] = None,
) -> None:
    """Read the options that every command has; they may stand anywhere in the command line."""
    if owner:
        from deployer.launch.environment import set_owner

        set_owner(owner)
    if quiet or verbose or log_file:
        from deployer.cli.output.log import open_log

        open_log(quiet, verbose, log_file)
