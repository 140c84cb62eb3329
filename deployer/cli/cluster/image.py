"""`deployer image`: the image that agents run in, from a Dockerfile to a registry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deployer.cli.output.render import say, show, show_json
from deployer.cli.shell.command_group import make_app
from deployer.cli.shell.options import Output, OutputOption, read_config
from deployer.config.project import Flags, Project
from deployer.errors import ConfigError
from deployer.text import format_bytes

if TYPE_CHECKING:
    from deployer.config.sections.image import ImageConfig

app = make_app("Build, push, save or load the agents' image.")

BuilderOption = Annotated[
    str | None,
    typer.Option(
        "--builder", metavar="BUILDER", help="docker, podman or buildah; left out: what works."
    ),
]
VariantOption = Annotated[
    str | None, typer.Option("--variant", metavar="VARIANT", help="cpu, cuda or cuda12.")
]
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
def build(
    builder: BuilderOption = None,
    variant: VariantOption = None,
    repository: RepositoryOption = None,
    rebuild: RebuildOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Build the image unless it is there; its tag is the hash of what goes in."""
    from deployer.images.image import build_image

    settings, project = _read(builder, variant, repository)
    built = build_image(settings, project.folder, project.environment, say, rebuild=rebuild)
    _show(built, built.reference, output)


@app.command()
def push(
    builder: BuilderOption = None,
    variant: VariantOption = None,
    repository: RepositoryOption = None,
    rebuild: RebuildOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Push the image unless the registry has it; print REGISTRY/NAME@sha256:DIGEST."""
    from deployer.images.image import push_image

    settings, project = _read(builder, variant, repository)
    pinned = push_image(settings, project.folder, project.environment, say, rebuild=rebuild)
    _show({"reference": pinned}, pinned, output)


@app.command()
def save(
    file: FileArgument,
    builder: BuilderOption = None,
    variant: VariantOption = None,
    repository: RepositoryOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write the image to a file, to be carried to where no registry of ours is reached."""
    from deployer.images.image_file import save_image

    settings, project = _read(builder, variant, repository)
    saved = save_image(settings, project.folder, file, project.environment, say)
    size = format_bytes(saved.size_bytes)
    _show(saved, f"{saved.path}: {saved.reference}, {size}, {saved.digest}", output)


@app.command()
def load(
    file: FileArgument, repository: RepositoryOption = None, output: OutputOption = Output.TABLE
) -> None:
    """Push the image in a file to a registry, without docker.

    Prints REGISTRY/NAME@sha256:DIGEST, as agents name the image.
    """
    from deployer.images.image_file import load_image

    settings, project = _read(None, None, repository)
    loaded = load_image(file, settings, project.environment, say)
    _show(loaded, loaded.reference, output)


def _show(value: object, text: str, output: str) -> None:
    if output == "json":
        show_json(value)
    else:
        show(text)


def _read(
    builder: str | None, variant: str | None, repository: str | None
) -> tuple[ImageConfig, Project]:
    """Return deployer.yaml's section with what the flags say instead, and the project."""
    from deployer.config.sections.image import BUILDERS
    from deployer.config.sections.image_reference import parse_repository

    project = read_config(Flags())
    for flag, value, known in (
        ("--builder", builder, BUILDERS),
        ("--variant", variant, ("cpu", "cuda", "cuda12")),
    ):
        if value and value not in known:
            raise ConfigError(flag, f"'{value}' is not known", f"one of: {', '.join(known)}")
    given = {"builder": builder, "variant": variant, "repository": repository}
    if repository:
        parse_repository(repository)
    named = {name: value for name, value in given.items() if value}
    return replace(project.image, **named), project  # type: ignore[arg-type]
