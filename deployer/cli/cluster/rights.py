"""`deployer rights`: the Roles that an administrator grants, as kubectl takes them."""

from __future__ import annotations

from typing import Annotated

import typer

from deployer.cli.output.render import show
from deployer.cli.shell.call import ALL_BUT_LOG, App
from deployer.executors.kubernetes.diagnose.rights import Role, load_role

app = App()


@app.command(without=ALL_BUT_LOG)
def rights(
    role: Annotated[
        Role, typer.Argument(metavar="ROLE", help="agents, backend, data or administrator.")
    ] = Role.AGENTS,
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="Also bind the Role to this user.")
    ] = "",
) -> None:
    """Print the smallest Role that a user needs in a namespace; contacts nothing.

    Every user needs `agents`. `backend` is for an embedded backend in the cluster, `data` for
    `deployer data`, and `administrator` for people who manage nodes. An administrator grants it:
    `deployer rights agents --user NAME | kubectl apply -n NAMESPACE -f -`.
    """
    show(load_role(role, user).rstrip())
