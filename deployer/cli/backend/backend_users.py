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
from deployer.cli.output.render import say, show, show_json, show_table
from deployer.cli.shell.command_group import make_app
from deployer.cli.shell.options import Output, OutputOption
from deployer.config.project import Project
from deployer.executors.registry import find_target
from deployer.wandb_api import accounts
from deployer.wandb_api.client import Client

app = make_app("Manage the backend's users.")

UserArgument = Annotated[str, typer.Argument(metavar="NAME", help="A user who is there.")]
KeyIdArgument = Annotated[
    str, typer.Argument(metavar="KEY-ID", help="As deployer backend user keys lists it.")
]
KeyStdinOption = Annotated[
    bool,
    typer.Option(
        "--key-stdin",
        help="Read the key from stdin: 40 characters or more; left out: make one and show it once.",
    ),
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
    key = _choose_key(key_stdin)
    if config := choose_config(on, data):
        with _reach(config) as client:
            accounts.add_user(client, name, key)
    else:
        users.add_user(choose_folder(data), name, key)
    say(f"added user {name}")
    _show_key(name, "added", key, key_stdin, output)


@app.command("key")
def add_key(
    name: UserArgument,
    key_stdin: KeyStdinOption = False,
    label: Annotated[
        str, typer.Option("--label", metavar="TEXT", help="What the key is for, as it is listed.")
    ] = "",
    only: Annotated[
        bool, typer.Option("--only", help="Refuse the user's other keys from now on.")
    ] = False,
    data: DataOption = None,
    on: ExecutorOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give a user another key; the others stay valid unless --only is given."""
    key = _choose_key(key_stdin)
    if config := choose_config(on, data):
        with _reach(config) as client:
            accounts.add_user_key(client, name, key, only, label)
    else:
        users.add_user_key(choose_folder(data), name, key, only, label)
    say(f"added a key of {name}; the others are refused" if only else f"added a key of {name}")
    _show_key(name, "key-added", key, key_stdin, output)


@app.command("keys")
def list_keys(
    name: UserArgument,
    data: DataOption = None,
    on: ExecutorOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List a user's keys by id, label and time; the keys themselves nobody can read."""
    if config := choose_config(on, data):
        with _reach(config) as client:
            rows = [(k.id, k.label, k.created) for k in accounts.list_user_keys(client, name)]
    else:
        found = users.list_user_keys(choose_folder(data), name)
        rows = [(key.key_id, key.label, key.created) for key in found]
    if output is Output.JSON:
        keys = [dict(zip(("id", "label", "created"), row, strict=True)) for row in rows]
        show_json({"user": name, "keys": keys})
        return
    show_table(("KEY-ID", "LABEL", "CREATED"), rows)


@app.command("rotate")
def rotate(
    name: UserArgument,
    key_id: KeyIdArgument,
    key_stdin: KeyStdinOption = False,
    data: DataOption = None,
    on: ExecutorOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Put a new key in the place of an old one, which is refused from now on."""
    key = _choose_key(key_stdin)
    if config := choose_config(on, data):
        with _reach(config) as client:
            accounts.rotate_user_key(client, name, key_id, key)
    else:
        users.rotate_user_key(choose_folder(data), name, key_id, key)
    say(f"key {key_id} of {name} is refused; {users.identify(key)} is in its place")
    _show_key(name, "key-rotated", key, key_stdin, output)


@app.command("revoke")
def revoke(
    name: UserArgument,
    key_id: KeyIdArgument,
    data: DataOption = None,
    on: ExecutorOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Refuse one key of a user from now on; who signed in with it is signed out."""
    if config := choose_config(on, data):
        with _reach(config) as client:
            accounts.revoke_user_key(client, name, key_id)
    else:
        users.revoke_user_key(choose_folder(data), name, key_id)
    say(f"key {key_id} of {name} is refused")
    if output is Output.JSON:
        show_json({"user": name, "state": "key-revoked", "id": key_id})


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
    name: UserArgument,
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


def _show_key(name: str, state: str, key: str, is_known: bool, output: Output) -> None:
    """Show a key that was made here: nobody can read it later."""
    if output is Output.JSON:
        made = {} if is_known else {"key": key}
        show_json({"user": name, "state": state, "id": users.identify(key), **made})
    elif not is_known:
        say(f"the key, id {users.identify(key)}, is shown this once:")
        show(key)


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


def _choose_key(key_stdin: bool) -> str:
    return sys.stdin.readline().strip() if key_stdin else users.new_key()
