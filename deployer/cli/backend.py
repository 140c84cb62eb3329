"""`deployer backend`: the embedded W&B-compatible server."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from deployer.backend.daemon import (
    Backend,
    add_user,
    add_user_key,
    backend_status,
    read_key,
    start_backend,
    stop_backend,
)
from deployer.backend.folder import KEY_FILE
from deployer.cli import backend_inside as inside
from deployer.cli.options import OutputOption, check_output
from deployer.config import Config
from deployer.errors import BackendError, ConfigError
from deployer.home import backend_folder
from deployer.render import say, show, show_json

app = typer.Typer(rich_markup_mode=None, help="Run the embedded W&B-compatible backend.")
user_app = typer.Typer(rich_markup_mode=None, help="Manage the backend's users.")
app.add_typer(user_app, name="user")

DataOption = Annotated[
    Path | None, typer.Option("--data", help="The data folder; left out: this user's.")
]
PlaceOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        envvar="DEPLOYER_ON",
        help="local, kubernetes or gke; left out: as deployer.yaml has it, else local.",
    ),
]
KeyStdinOption = Annotated[
    bool, typer.Option("--key-stdin", help="Read the key from stdin: 40 characters or more.")
]


@app.command()
def serve(
    host: Annotated[str, typer.Option("--host", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="0: the remembered one, or a free one.")
    ] = 0,
    data: DataOption = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Hide what W&B's own server does not have.")
    ] = False,
) -> None:
    """Serve in the foreground; /healthz answers 200 when it is ready."""
    from deployer.backend.serving import serve as serve_folder

    more = f" --data {shlex.quote(str(data))}" if data else ""
    say(f'use it: eval "$(deployer backend env{more})"')
    serve_folder(host, port, _folder(data), plain)


@app.command()
def up(data: DataOption = None, on: PlaceOption = None, output: OutputOption = "table") -> None:
    """Serve in the background, if nobody does yet, and wait until it is ready.

    In a cluster, make it or bring it in line with deployer.yaml.
    """
    check_output(output)
    if config := inside.choose_config(on, data):
        inside.up(config, output)
        return
    _show(start_backend(_folder(data)), output)


@app.command()
def status(data: DataOption = None, on: PlaceOption = None, output: OutputOption = "table") -> None:
    """Say whether the backend runs, and where."""
    check_output(output)
    if config := inside.choose_config(on, data):
        inside.status(config, output)
        return
    backend = backend_status(_folder(data))
    if backend is None:
        raise BackendError(
            f"no backend was ever served from {_folder(data)}", "deployer backend up"
        )
    _show(backend, output)


@app.command()
def down(data: DataOption = None, on: PlaceOption = None, output: OutputOption = "table") -> None:
    """Stop the backend; its data stays."""
    check_output(output)
    if config := inside.choose_config(on, data):
        inside.down(config, output)
        return
    stopped = stop_backend(_folder(data))
    say("backend stopped; its data stays" if stopped else "no backend runs")
    if output == "json":
        show_json({"stopped": stopped})


@app.command()
def env(data: DataOption = None, on: PlaceOption = None) -> None:
    """Print what points the plain SDK at the backend: eval "$(deployer backend env)"."""
    if config := inside.choose_config(on, data):
        variables = inside.list_variables(config)
    else:
        backend = start_backend(_folder(data))
        variables = {
            "WANDB_BASE_URL": backend.url,
            "WANDB_API_KEY": read_key(backend.data),
            "WANDB_ENTITY": backend.entity,
        }
    for name, value in variables.items():
        show(f"export {name}={shlex.quote(value)}")


@app.command("open")
def open_(on: PlaceOption = None) -> None:
    """Hold a port of this machine open that leads to a cluster's backend, until Ctrl-C."""
    inside.hold_open(_choose_cluster(on))


@app.command()
def copy(data: DataOption = None, on: PlaceOption = None) -> None:
    """Bring all that a cluster's backend holds to this machine's, or to a folder of its own.

    What the folder holds is replaced, unless it has sweeps or runs that the cluster has not.
    """
    inside.copy(_choose_cluster(on), _folder(data))


def _choose_cluster(on: str | None) -> Config:
    config = inside.choose_config(on, None)
    if config is None:
        raise ConfigError("--on", "names no cluster", "--on kubernetes or --on gke")
    return config


@user_app.command("add")
def user_add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="User, and entity of that name.")],
    key_stdin: KeyStdinOption = False,
    data: DataOption = None,
) -> None:
    """Add a user with an entity of their own, also while the backend runs."""
    add_user(_folder(data), name, _read_key("add", name, key_stdin))
    say(f"added user {name}")


@user_app.command("key")
def user_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A user who is there.")],
    key_stdin: KeyStdinOption = False,
    only: Annotated[
        bool, typer.Option("--only", help="Refuse the user's other keys from now on.")
    ] = False,
    data: DataOption = None,
) -> None:
    """Give a user another key; the others stay good unless it shall be the only one."""
    add_user_key(_folder(data), name, _read_key("key", name, key_stdin), only)
    say(f"added a key of {name}; the others are refused" if only else f"added a key of {name}")


def _read_key(command: str, name: str, key_stdin: bool) -> str:
    if not key_stdin:
        raise ConfigError(
            "--key-stdin",
            "a key is read from stdin alone",
            f"deployer backend user {command} {name} --key-stdin < KEYFILE",
        )
    return sys.stdin.readline().strip()


def _folder(data: Path | None) -> Path:
    return data.expanduser().resolve() if data else backend_folder()


def _show(backend: Backend, output: str) -> None:
    if output == "json":
        show_json({**vars(backend), "running": backend.running})
        return
    show(f"{'running' if backend.running else 'stopped'}: {backend.url}")
    show(f"entity: {backend.entity}")
    show(f"data: {backend.data}")
    show(f"key file: {backend.data / KEY_FILE}")
