"""`deployer backend user`: who may use the embedded backend, here or in a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from deployer.backend.db.accounts import hash_key, key_id_of, new_key
from deployer.cli.backend.place import DataOption, find_place
from deployer.cli.output.render import Aside, Table
from deployer.cli.shell.call import SERVER, App, Call
from deployer.errors import WandbError
from deployer.wandb_api import accounts

app = App("Manage the backend's users.")


@app.command("add", without=SERVER)
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
        state, said = "unchanged", f"{name} has key {key_id} already"
    elif before:
        state, said = "key-added", f"added key {key_id} of {name}, who has {len(before) + 1}"
    else:
        state, said = "added", f"added user {name}"
    lines = (Aside(f"the key, id {key_id}, is shown only now:"), key) if shown else ()
    call.emit({"user": name, "state": state, "id": key_id, **shown}, Aside(said), *lines)


@app.command("list", without=SERVER)
def list_(call: Call, data: DataOption = None) -> None:
    """List the users and their keys, the backend's own user first.

    Shows the id, label and time of each key, but never the key.
    """
    users = accounts.list_users(find_place(call, data).connect().client)
    named = [{"name": name, "keys": list(map(vars, keys))} for name, keys in users.items()]
    rows = [(name, key.id, key.label, key.created) for name, keys in users.items() for key in keys]
    call.emit({"users": named}, Table(("USER", "KEY-ID", "LABEL", "CREATED"), rows))


@app.command("remove", without=SERVER)
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
    """Say what to do about what the backend refuses in a sentence of its own."""
    try:
        yield
    except WandbError as error:
        raise WandbError(error.message, error.hint or hint, error.status) from error
