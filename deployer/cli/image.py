"""`deployer image`: the agents' image, from a Dockerfile to a registry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.shell.call import PLACE, SERVER, App, Call
from deployer.text import format_bytes

app = App("Push, save or load the agents' image.")

RepositoryOption = Annotated[
    str | None,
    typer.Option(
        "--repository",
        metavar="REGISTRY/NAME",
        help="REGISTRY/NAME; default: `image.repository` of deployer.yaml.",
    ),
]
RebuildOption = Annotated[
    bool,
    typer.Option("--rebuild", help="Rebuild the image on the newest base, even if it exists."),
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The archive.")]


@app.command(without=(*PLACE, *SERVER))
def push(call: Call, rebuild: RebuildOption = False) -> None:
    """Build and push the image unless the registry has it; print REGISTRY/NAME@sha256:DIGEST.

    The tag is a hash of the build's inputs.
    """
    from deployer.images.image import push_image

    project = call.read()
    pinned = push_image(project.image, project.folder, project.environment, rebuild=rebuild)
    call.emit({"reference": pinned}, pinned)


@app.command(without=(*PLACE, *SERVER))
def save(call: Call, file: FileArgument) -> None:
    """Write the image to a file, for a site that cannot reach your registry.

    Builds the image first if it is missing.
    """
    from deployer.images.image_file import save_image

    project = call.read()
    saved = save_image(project.image, project.folder, file, project.environment)
    size = format_bytes(saved.size_bytes)
    call.emit(saved, f"{saved.path}: {saved.reference}, {size}, {saved.digest}")


@app.command(without=(*PLACE, *SERVER))
def load(call: Call, file: FileArgument, repository: RepositoryOption = None) -> None:
    """Push the image in a file to a registry, without docker.

    Prints REGISTRY/NAME@sha256:DIGEST, the name that agents use.
    """
    from deployer.config.image_reference import parse_repository
    from deployer.images.image_file import load_image

    project = call.read()
    settings = project.image
    if repository:
        parse_repository(repository)
        settings = replace(settings, repository=repository)
    loaded = load_image(file, settings, project.environment)
    call.emit(loaded, loaded.reference)
