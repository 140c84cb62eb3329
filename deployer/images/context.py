"""What goes into an image: Dockerfile, arguments and files; the tag is the hash of all of it.

The build gets a folder with these files and no others, so the tag says everything about it but
the base image and what the build downloads.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from deployer.config.deployer_yaml import FILE_NAME
from deployer.config.sections.image import ImageConfig
from deployer.config.user_file import read_user_text
from deployer.errors import ConfigError
from deployer.images.code_archive import list_files, warn_about_left_out
from deployer.images.dockerignore import is_hopeless, is_ignored, parse_dockerignore

TAG_LETTERS = 16
IGNORE_FILE = ".dockerignore"


@dataclass(frozen=True)
class Inputs:
    """All that goes into an image; `files` are paths in the folder `context`."""

    dockerfile: Path
    context: Path
    files: tuple[str, ...]
    tag: str


def read_inputs(settings: ImageConfig, folder: Path) -> Inputs:
    """Find what goes into the image of a project. Raises ConfigError if something is missing.

    The files are those that `.dockerignore` leaves; where there is none, those that git tracks.
    """
    dockerfile = folder / settings.dockerfile
    context = folder / settings.context
    _check(settings, dockerfile, context)
    ignore = context / IGNORE_FILE
    files = _list_left(ignore, context) if ignore.is_file() else list_files(context)
    return Inputs(dockerfile, context, tuple(files), _hash(settings, dockerfile, context, files))


def warn_about_context(inputs: Inputs) -> str:
    """Return a warning about files that were probably meant to be in the image; empty if none."""
    if (inputs.context / IGNORE_FILE).is_file():
        return ""
    said = warn_about_left_out(inputs.context)
    return said.replace("agents do not get", "the image does not get")


def copy_context(inputs: Inputs, target: Path) -> None:
    """Copy the files into an empty folder, readable to every user of the image."""
    for name in inputs.files:
        source, copy = inputs.context / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy, follow_symlinks=False)
        if not copy.is_symlink():
            copy.chmod(_mode(source))


def _check(settings: ImageConfig, dockerfile: Path, context: Path) -> None:
    if not context.is_dir():
        raise ConfigError(f"{FILE_NAME}: image.context", f"there is no folder {context}")
    if not dockerfile.is_file():
        hint = "write one, or name another in deployer.yaml: image: {dockerfile: …}"
        raise ConfigError(f"{dockerfile}", "there is no such file", hint)
    text = read_user_text(dockerfile)
    if settings.variant and not any(line.startswith("ARG VARIANT") for line in text.splitlines()):
        hint = f"write `ARG VARIANT=cuda` into {settings.dockerfile}, or leave `variant` out"
        said = f"{settings.dockerfile} has no argument VARIANT"
        raise ConfigError(f"{FILE_NAME}: image.variant", said, hint)


def _list_left(ignore: Path, context: Path) -> list[str]:
    rules = parse_dockerignore(read_user_text(ignore))
    found = []
    for here, folders, files in os.walk(context):
        inside = Path(here).relative_to(context)
        links = [name for name in folders if (Path(here) / name).is_symlink()]
        names = [(inside / name).as_posix() for name in [*files, *links]]
        found += [name for name in names if not is_ignored(rules, name)]
        folders[:] = [
            name for name in folders if not is_hopeless(rules, (inside / name).as_posix())
        ]
    return sorted(found)


def _hash(settings: ImageConfig, dockerfile: Path, context: Path, files: list[str]) -> str:
    digest = hashlib.sha256(dockerfile.read_bytes())
    digest.update(json.dumps([settings.platform, settings.arguments]).encode())
    for name in files:
        path = context / name
        if path.is_symlink():
            kind, content = "link", hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
        else:
            kind = f"{_mode(path):o}"
            with path.open("rb") as opened:
                content = hashlib.file_digest(opened, "sha256").hexdigest()
        digest.update(json.dumps([name, kind, content]).encode())
    return digest.hexdigest()[:TAG_LETTERS]


def _mode(path: Path) -> int:
    """Return a file's mode as git knows it: what differs between machines is no part of it."""
    return 0o755 if path.stat().st_mode & 0o100 else 0o644
