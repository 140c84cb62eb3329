"""`deployer backend`: the embedded W&B-compatible server."""

from __future__ import annotations

import logging
import shlex
from enum import StrEnum
from typing import Annotated

import typer

from deployer.cli.backend import backend_users
from deployer.cli.backend.place import (
    DataOption,
    InCluster,
    State,
    choose_folder,
    find_place,
)
from deployer.cli.output.render import Aside, say
from deployer.cli.shell.call import ALL_BUT_LOG, FORMAT, SERVER, App, Call
from deployer.errors import ConfigError

app = App("Run the embedded W&B-compatible backend.")
app.add_typer(backend_users.app, name="user")


class LogFormat(StrEnum):
    """The formats of a server's log."""

    TEXT = "text"
    JSON = "json"


@app.command(without=ALL_BUT_LOG)
def serve(
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="PORT", min=0, max=65535, help="0: the last used port, or a free one."
        ),
    ] = 0,
    data: DataOption = None,
    public_url: Annotated[
        str,
        typer.Option(
            "--public-url",
            metavar="URL",
            help="The public address behind a reverse proxy, such as https://sweeps.example.org.",
        ),
    ] = "",
    plain: Annotated[
        bool, typer.Option("--no-extensions", help="Hide features that W&B's own servers lack.")
    ] = False,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="The format of log lines on stderr.")
    ] = LogFormat.TEXT,
) -> None:
    """Run the backend in the foreground; /healthz returns 200 when it is ready."""
    from deployer.backend.server.foreground import log_to_stderr
    from deployer.backend.server.foreground import serve as serve_folder

    handler = log_to_stderr(as_json=log_format is LogFormat.JSON, only=True)
    more = f" --data {shlex.quote(str(data))}" if data else ""
    use = f'use it: eval "$(deployer backend env{more})"'
    try:
        serve_folder(host, port, choose_folder(data), plain, public_url, lambda: say(use))
    finally:
        logging.getLogger().removeHandler(handler)


@app.command(without=SERVER)
def up(call: Call, data: DataOption = None) -> None:
    """Start the backend in the background unless it runs, and wait until it is ready.

    In a cluster, create it, or update it from deployer.yaml.
    """
    _show(call, find_place(call, data).up())


@app.command(without=SERVER)
def status(call: Call, data: DataOption = None) -> None:
    """Show the backend's state and address."""
    _show(call, find_place(call, data).status())


@app.command(without=SERVER)
def down(
    call: Call,
    data: DataOption = None,
    delete_data: Annotated[
        bool,
        typer.Option("--delete-data", help="In a cluster: also delete its data; asks first."),
    ] = False,
) -> None:
    """Stop the backend and keep its data. In a cluster, asks first if others use it."""
    stopped = find_place(call, data).down(call.yes, delete_data=delete_data)
    if stopped is not None:
        call.emit({"stopped": stopped})


@app.command(without=SERVER)
def env(call: Call, data: DataOption = None) -> None:
    """Print variables that connect wandb to the backend: eval "$(deployer backend env)"."""
    server = find_place(call, data).connect()
    url = server.url
    if inside := server.inside:
        say(f"valid while this runs: deployer backend open --on {inside.place}")
        url = inside.pages_url
    key, entity = server.client.key, server.viewer.entity
    variables = {"WANDB_BASE_URL": url, "WANDB_API_KEY": key, "WANDB_ENTITY": entity}
    lines = (f"export {name}={shlex.quote(value)}" for name, value in variables.items())
    call.emit(variables, *lines)


@app.command("open", without=(*SERVER, *FORMAT))
def open_(call: Call, data: DataOption = None) -> None:
    """Print a one-time link to the results pages that signs in without a key.

    In a cluster, also forward a local port to the backend until Ctrl-C.
    """
    find_place(call, data).open()


@app.command(without=(*SERVER, *FORMAT))
def copy(call: Call, data: DataOption = None) -> None:
    """Copy all data of a cluster's backend to this machine's backend, or to --data.

    Replaces the folder's content, unless it has sweeps or runs that the cluster lacks.
    """
    place = find_place(call, None)
    if not isinstance(place, InCluster):
        raise ConfigError("--on", "names no cluster", "--on kubernetes or --on gke")
    place.copy(choose_folder(data))


def _show(call: Call, state: State) -> None:
    trouble = state.trouble
    notes = [Aside(f"{trouble.message}\nhint: {trouble.hint}")] if trouble else []
    call.emit(state.as_json, *state.lines, *notes)
