"""`deployer backend`: the embedded W&B-compatible server."""

from __future__ import annotations

import logging
import shlex
from typing import Annotated

import typer

from deployer.backend.data_folder import KEY_FILE, read_key
from deployer.backend.server.daemon import Backend, backend_status, start_backend, stop_backend
from deployer.backend.server.health import Health
from deployer.cli.backend import backend_in_cluster as inside
from deployer.cli.backend import backend_users
from deployer.cli.backend.backend_options import (
    DataOption,
    ExecutorOption,
    LogFormat,
    choose_folder,
)
from deployer.cli.output.render import say, show, show_json
from deployer.cli.shell.command_group import make_app
from deployer.cli.shell.confirmation import YesOption
from deployer.cli.shell.options import Output, OutputOption
from deployer.config.project import Project
from deployer.errors import BackendError, ConfigError
from deployer.wandb_api.client import Client
from deployer.wandb_api.server import make_link

app = make_app("Run the embedded W&B-compatible backend.")
app.add_typer(backend_users.app, name="user")


@app.command()
def serve(
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="PORT", min=0, max=65535, help="0: the remembered one, or a free one."
        ),
    ] = 0,
    data: DataOption = None,
    public_url: Annotated[
        str,
        typer.Option(
            "--public-url",
            metavar="URL",
            help="Where a reverse proxy serves it, such as https://sweeps.example.org.",
        ),
    ] = "",
    plain: Annotated[
        bool, typer.Option("--no-extensions", help="Hide what W&B's own server does not have.")
    ] = False,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="The format of what it logs to stderr.")
    ] = LogFormat.TEXT,
) -> None:
    """Serve in the foreground; /healthz answers 200 when it is ready."""
    from deployer.backend.server.foreground import serve as serve_folder
    from deployer.backend.server.log import log_to_stderr

    handler = log_to_stderr(as_json=log_format is LogFormat.JSON, only=True)
    more = f" --data {shlex.quote(str(data))}" if data else ""
    use = f'use it: eval "$(deployer backend env{more})"'
    try:
        serve_folder(host, port, choose_folder(data), plain, public_url, lambda: say(use))
    finally:
        logging.getLogger().removeHandler(handler)


@app.command()
def up(
    data: DataOption = None, on: ExecutorOption = None, output: OutputOption = Output.TABLE
) -> None:
    """Serve in the background unless it runs already, and wait until it is ready.

    In a cluster, make it or bring it in line with deployer.yaml.
    """
    if config := inside.choose_config(on, data):
        inside.up(config, output)
        return
    _show(start_backend(choose_folder(data)), output)


@app.command()
def status(
    data: DataOption = None, on: ExecutorOption = None, output: OutputOption = Output.TABLE
) -> None:
    """Say whether the backend runs, and where."""
    if config := inside.choose_config(on, data):
        inside.status(config, output)
        return
    backend = backend_status(choose_folder(data))
    if backend is None:
        raise BackendError(
            f"no backend was ever served from {choose_folder(data)}", "deployer backend up"
        )
    _show(backend, output)


@app.command()
def down(
    data: DataOption = None,
    on: ExecutorOption = None,
    yes: YesOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Stop the backend; its data stays. In a cluster it may be another owner's: asks first."""
    if config := inside.choose_config(on, data):
        inside.down(config, yes, output)
        return
    stopped = stop_backend(choose_folder(data))
    say("backend stopped; its data stays" if stopped else "no backend runs")
    if output == "json":
        show_json({"stopped": stopped})


@app.command()
def env(
    data: DataOption = None, on: ExecutorOption = None, output: OutputOption = Output.TABLE
) -> None:
    """Print what points the plain SDK at the backend: eval "$(deployer backend env)"."""
    if config := inside.choose_config(on, data):
        variables = inside.list_variables(config)
    else:
        backend = start_backend(choose_folder(data))
        variables = {
            "WANDB_BASE_URL": backend.url,
            "WANDB_API_KEY": read_key(backend.data),
            "WANDB_ENTITY": backend.entity,
        }
    if output == "json":
        show_json(variables)
        return
    for name, value in variables.items():
        show(f"export {name}={shlex.quote(value)}")


@app.command("open")
def open_(data: DataOption = None, on: ExecutorOption = None) -> None:
    """Print an address of the results pages that signs in once, without a key.

    In a cluster, also forward a local port to the backend until Ctrl-C.
    """
    if config := inside.choose_config(on, data):
        inside.hold_open(config)
        return
    backend = start_backend(choose_folder(data))
    client = Client(backend.url, read_key(backend.data), near=True)
    show(make_link(client, backend.url) or backend.url)


@app.command()
def copy(data: DataOption = None, on: ExecutorOption = None) -> None:
    """Copy everything from a cluster's backend to this machine's, or to a folder of its own.

    What the folder holds is replaced, unless it has sweeps or runs that the cluster has not.
    """
    inside.copy(_choose_cluster(on), choose_folder(data))


def _choose_cluster(on: str | None) -> Project:
    config = inside.choose_config(on, None)
    if config is None:
        raise ConfigError("--on", "names no cluster", "--on kubernetes or --on gke")
    return config


def _show(backend: Backend, output: str) -> None:
    if output == "json":
        show_json({**vars(backend), "running": backend.running})
        return
    trouble = backend.describe_trouble()
    word = "running" if backend.health is Health.READY else str(backend.health)
    show(f"{word if backend.running else 'stopped'}: {backend.url}")
    show(f"entity: {backend.entity}")
    show(f"data: {backend.data}")
    show(f"key file: {backend.data / KEY_FILE}")
    if trouble:
        say(f"{trouble.message}\nhint: {trouble.hint}")
