"""`deployer backend user`: who may use the embedded backend, here or in a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from deployer.backend.server import users
from deployer.cli.backend.backend_in_cluster import choose_config
from deployer.cli.backend.backend_options import DataOption, ExecutorOption, choose_folder
from deployer.cli.output.render import say, show, show_json
from deployer.cli.shell.command_group import make_app
from deployer.cli.shell.options import Output, OutputOption
from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.registry import find_target
from deployer.wandb_api import accounts
from deployer.wandb_api.client import Client

app = make_app("Manage the backend's users.")

KeyStdinOption = Annotated[
    bool, typer.Option("--key-stdin", help="Read the key from stdin: 40 characters or more.")
]


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="User, and entity of that name.")],
    key_stdin: KeyStdinOption = False,
    data: DataOption = None,
    on: ExecutorOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Add a user with an entity of their own, also while the backend runs."""
    key = _read_key("add", name, key_stdin)
    if config := choose_config(on, data):
        with _reach(config) as client:
            accounts.add_user(client, name, key)
    else:
        users.add_user(choose_folder(data), name, key)
    say(f"added user {name}")
    _show(name, "added", output)


@app.command("key")
def add_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A user who is there.")],
    key_stdin: KeyStdinOption = False,
    only: Annotated[
        bool, typer.Option("--only", help="Refuse the user's other keys from now on.")
    ] = False,
    data: DataOption = None,
    on: ExecutorOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give a user another key; the others stay valid unless --only is given."""
    key = _read_key("key", name, key_stdin)
    if config := choose_config(on, data):
        with _reach(config) as client:
            accounts.add_user_key(client, name, key, only)
    else:
        users.add_user_key(choose_folder(data), name, key, only)
    say(f"added a key of {name}; the others are refused" if only else f"added a key of {name}")
    _show(name, "key-added", output)


@app.command("list")
def list_(
    data: DataOption = None, on: ExecutorOption = None, output: OutputOption = Output.TABLE
) -> None:
    """List the users, the backend's own first."""
    if config := choose_config(on, data):
        with _reach(config) as client:
            names = accounts.list_users(client)
    else:
        names = users.list_user_names(choose_folder(data))
    if output is Output.JSON:
        show_json({"users": names})
        return
    for name in names:
        show(name)


@app.command("remove")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A user who is there.")],
    data: DataOption = None,
    on: ExecutorOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Refuse all keys of a user, their agents' too; what they made stays.

    Adding the user again brings it back.
    """
    if config := choose_config(on, data):
        with _reach(config) as client:
            accounts.remove_user(client, name)
    else:
        users.remove_user_of(choose_folder(data), name)
    say(f"removed user {name}; deployer backend user add {name} brings back what they made")
    _show(name, "removed", output)


def _show(name: str, state: str, output: Output) -> None:
    if output is Output.JSON:
        show_json({"user": name, "state": state})


@contextmanager
def _reach(config: Project) -> Iterator[Client]:
    """Yield a client of a cluster's backend that asks as its own user."""
    from deployer.executors.kubernetes.backend.deployment import require_backend
    from deployer.executors.kubernetes.backend.manifests import KEY_SECRET
    from deployer.executors.kubernetes.backend.tunnel import open_forward

    kube = find_target(config).open_kube()
    backend = require_backend(kube, config.on)
    with open_forward(kube, backend) as forward:
        yield Client(forward.url, backend.key, f"Secret {KEY_SECRET} in {backend.namespace}")


def _read_key(command: str, name: str, key_stdin: bool) -> str:
    if not key_stdin:
        raise ConfigError(
            "--key-stdin",
            "a key is read from stdin alone",
            f"deployer backend user {command} {name} --key-stdin < KEYFILE",
        )
    return sys.stdin.readline().strip()
