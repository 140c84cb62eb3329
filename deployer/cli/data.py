"""`deployer data`: the data sets that runs read, from `data:` in deployer.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deployer.cli.output.live import follow_copy
from deployer.cli.output.render import Table, say
from deployer.cli.shell.call import SERVER, App, Call, check_can_ask, confirm
from deployer.errors import ConfigError, collect_refusals
from deployer.text import format_bytes

if TYPE_CHECKING:
    from deployer.launch.data_sets import Transfer

app = App("The data sets that runs read, from `data:` in deployer.yaml.")

NameArgument = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="The data set; optional if there is only one."),
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace existing files that differ.")
]


@app.command(without=SERVER)
def put(
    call: Call,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder, a file, an archive, or an address: s3://BUCKET/FOLDER.",
        ),
    ],
    name: NameArgument = None,
    keep_packed: Annotated[
        bool, typer.Option("--keep-packed", help="Keep an archive as one file.")
    ] = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Copy data to where the data set is kept; checks and unpacks an archive.

    Skips equal files, continues an interrupted copy, and deletes nothing. If a file there has
    other content, copies nothing unless you add --overwrite.
    """
    from deployer.launch import data_sets

    project = call.read()
    data = data_sets.find_data(project, name)
    with follow_copy(f"put {data.name}") as progress:
        done = data_sets.put(
            project, data, source, progress, unpacked=not keep_packed, overwrite=overwrite
        )
    _show(call, done)
    if data.url or (data.folder and project.on != "local"):
        say(f"to make it visible to runs: deployer data preload {data.name}{project.on_option}")


@app.command(without=SERVER)
def get(
    call: Call,
    name: NameArgument = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="FOLDER", help="The target folder; default: NAME."),
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Copy a data set to a local folder.

    Skips equal files. If a file there has other content, copies nothing unless you add
    --overwrite.
    """
    from deployer.launch import data_sets

    if to is not None and ("://" in to or not to.strip()):
        said = "is not a folder" if to.strip() else "is empty"
        raise ConfigError("--to", said, "deployer data get --to FOLDER")
    project = call.read()
    data = data_sets.find_data(project, name)
    folder = Path(to or data.name).expanduser()
    with follow_copy(f"get {data.name}") as progress:
        done = data_sets.get(project, data, folder, progress, overwrite=overwrite)
    _show(call, done)


@app.command(without=SERVER)
def preload(call: Call, name: NameArgument = None) -> None:
    """Copy a data set once to where runs read it; without NAME, all sets kept elsewhere.

    Copies from an object store to this machine, or with --on kubernetes into the cluster. Unpacks
    a data set that is one archive.
    """
    from deployer.launch import data_sets

    project = call.read()
    named = [data_sets.find_data(project, name)] if name else data_sets.find_elsewhere(project)
    done = []
    with collect_refusals() as refusals:
        for data in named:
            with refusals.noted(), follow_copy(f"preload {data.name}") as progress:
                done.append(data_sets.bring(project, data, progress))
                if call.output == "table":
                    _show(call, done[-1])
        call.emit(done)


@app.command("list", without=SERVER)
def list_(call: Call) -> None:
    """List data sets and the files that runs see; exits with 1 if one cannot be read."""
    from deployer.launch import data_sets

    with collect_refusals() as refusals:
        found = list(data_sets.list_places(call.read(), refusals))
        table = Table(
            ("data set", "kept in", "runs see it in", "files", "size", "state"),
            [
                (one.name, one.kept_in, one.place, one.files, _size(one.size_bytes), one.state)
                for one in found
            ],
            empty=f"deployer.yaml has no data set; add one with {data_sets.EXAMPLE}",
        )
        call.emit(found, table)


@app.command(without=SERVER)
def delete(
    call: Call,
    name: NameArgument = None,
    kept: Annotated[
        bool, typer.Option("--kept", help="Also delete the original files in the object store.")
    ] = False,
) -> None:
    """Delete the copy of a data set that runs read, permanently if it is the only copy."""
    from deployer.launch import data_sets

    project = call.read()
    data = data_sets.find_data(project, name)
    data_sets.check_deletable(project, data, kept)
    check_can_ask(call.yes)
    what = data_sets.describe_deletion(project, data, kept)
    wanted = call.yes or confirm(f"delete {what}?")
    if wanted:
        data_sets.delete(project, data, kept)
        say(f"deleted {what}")
    else:
        say("nothing was deleted")
    call.emit({"data": data.name, "deleted": wanted})


def _size(size_bytes: int) -> str:
    return format_bytes(size_bytes) if size_bytes else ""


def _show(call: Call, done: Transfer) -> None:
    from deployer.data.copy import describe_copied

    said = describe_copied(done.copied) if done.copied else "all already there"
    call.emit(done, f"{done.name}: {said}, in {done.target}")
