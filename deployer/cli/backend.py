"""`deployer backend`: the embedded W&B-compatible server, and `backend user`, its users."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from deployer.backend.db.accounts import hash_key, key_id_of, new_key
from deployer.cli.backend_place import (
    BackendState,
    DataOption,
    InCluster,
    choose_folder,
    find_place,
)
from deployer.cli.output.render import Aside, Table, say
from deployer.cli.shell.call import ALL_BUT_LOG, FORMAT, SERVER, App, Call
from deployer.errors import ConfigError, WandbError
from deployer.wandb_api import accounts

# `deployer backend user`: the users of the embedded backend, local or in a cluster.

user_app = App("Manage the backend's users.")


@user_app.command("add", without=SERVER)
def add(
    call: Call,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The user's name, which is also their entity.")
    ],
    key_stdin: Annotated[
        bool,
        typer.Option(
            "--key-stdin",
            help="Read the key from stdin (at least 40 characters); default: create and show one.",
        ),
    ] = False,
    label: Annotated[
        str, typer.Option("--label", metavar="TEXT", help="A label for the key, shown in the list.")
    ] = "",
    data: DataOption = None,
) -> None:
    """Add a user with an entity of the same name, or another key for an existing user.

    The user's other keys stay valid.
    """
    key = sys.stdin.readline().strip() if key_stdin else new_key()
    key_id = key_id_of(hash_key(key))
    with _refused("deployer backend user add --help"):
        client = find_place(call, data).connect().client
        before = [one.id for one in accounts.list_users(client).get(name, ())]
        accounts.add_user(client, name, key, label)
    shown = {} if key_stdin else {"key": key}
    if key_id in before:
        state, said = "unchanged", f"{name} already has key {key_id}"
    elif before:
        state, said = (
            "key-added",
            f"added key {key_id} of {name}, who now has {len(before) + 1} keys",
        )
    else:
        state, said = "added", f"added user {name}"
    lines = (Aside(f"the key, id {key_id}, is shown only now:"), key) if shown else ()
    call.emit({"user": name, "state": state, "id": key_id, **shown}, Aside(said), *lines)


@user_app.command("list", without=SERVER)
def list_(call: Call, data: DataOption = None) -> None:
    """List the users and their keys, the backend's own user first.

    Shows the id, label and time of each key, but never the key.
    """
    users = accounts.list_users(find_place(call, data).connect().client)
    named = [{"name": name, "keys": list(map(vars, keys))} for name, keys in users.items()]
    rows = [(name, key.id, key.label, key.created) for name, keys in users.items() for key in keys]
    call.emit({"users": named}, Table(("USER", "KEY-ID", "LABEL", "CREATED"), rows))


@user_app.command("remove", without=SERVER)
def remove(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")],
    key_id: Annotated[
        str | None,
        typer.Argument(metavar="KEY-ID", help="A key's id, from `deployer backend user list`."),
    ] = None,
    data: DataOption = None,
) -> None:
    """Revoke one key, or all keys of a user and their agents; sweeps and runs stay.

    Signs out their browsers. Adding the user again restores their sweeps and runs.
    """
    with _refused("deployer backend user list"):
        if key_id is None:
            accounts.remove_user(find_place(call, data).connect().client, name)
        else:
            accounts.revoke_key(find_place(call, data).connect().client, name, key_id)
    if key_id is None:
        what = {"state": "removed"}
        said = (
            f"removed user {name}; deployer backend user add {name} restores their sweeps and runs"
        )
    else:
        what = {"state": "key-removed", "id": key_id}
        said = f"removed key {key_id} of {name}"
    call.emit({"user": name, **what}, Aside(said))


@contextmanager
def _refused(hint: str) -> Iterator[None]:
    try:
        yield
    except WandbError as error:
        raise WandbError(error.message, error.hint or hint, error.status) from error


# `deployer backend`: the embedded W&B-compatible server.

app = App("Run the embedded W&B-compatible backend.")
app.add_typer(user_app, name="user")


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


def _show(call: Call, state: BackendState) -> None:
    trouble = state.trouble
    notes = [Aside(f"{trouble.message}\nhint: {trouble.hint}")] if trouble else []
    call.emit(state.as_json, *state.lines, *notes)
