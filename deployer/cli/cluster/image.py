"""`deployer image`: the image that agents run in, from a Dockerfile to a registry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.output.render import emit
from deployer.cli.shell.command_group import make_app
from deployer.cli.shell.options import Output, OutputOption, read_config
from deployer.config.project import Flags
from deployer.text import format_bytes

app = make_app("Push, save or load the agents' image.")

RepositoryOption = Annotated[
    str | None,
    typer.Option(
        "--repository",
        metavar="REGISTRY/NAME",
        help="REGISTRY/NAME; left out: as deployer.yaml says.",
    ),
]
RebuildOption = Annotated[
    bool,
    typer.Option("--rebuild", help="Build it anew although it is there, on the newest base."),
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The archive.")]


@app.command()
def push(rebuild: RebuildOption = False, output: OutputOption = Output.TABLE) -> None:
    """Build and push the image unless the registry has it; print REGISTRY/NAME@sha256:DIGEST.

    Its tag is the hash of what goes in.
    """
    from deployer.images.image import push_image

    project = read_config(Flags())
    pinned = push_image(project.image, project.folder, project.environment, rebuild=rebuild)
    emit({"reference": pinned}, output, pinned)


@app.command()
def save(file: FileArgument, output: OutputOption = Output.TABLE) -> None:
    """Write the image to a file, to be carried to where no registry of ours is reached.

    It is built unless it is there.
    """
    from deployer.images.image_file import save_image

    project = read_config(Flags())
    saved = save_image(project.image, project.folder, file, project.environment)
    size = format_bytes(saved.size_bytes)
    emit(saved, output, f"{saved.path}: {saved.reference}, {size}, {saved.digest}")


@app.command()
def load(
    file: FileArgument, repository: RepositoryOption = None, output: OutputOption = Output.TABLE
) -> None:
    """Push the image in a file to a registry, without docker.

    Prints REGISTRY/NAME@sha256:DIGEST, as agents name the image.
    """
    from deployer.config.sections.image_reference import parse_repository
    from deployer.images.image_file import load_image

    project = read_config(Flags())
    settings = project.image
    if repository:
        parse_repository(repository)
        settings = replace(settings, repository=repository)
    loaded = load_image(file, settings, project.environment)
    emit(loaded, output, loaded.reference)
