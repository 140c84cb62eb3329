"""The files of an image, without those that `.dockerignore` excludes; their hash is the tag.

The build gets a folder with exactly these files. So the tag determines the image except for the
base image and the build's downloads.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deployer.config.document import FILE_NAME, read_user_text
from deployer.config.image import ImageConfig
from deployer.errors import ConfigError
from deployer.images.code_archive import list_files, warn_about_left_out

TAG_LETTERS = 16
IGNORE_FILE = ".dockerignore"


# Which files `.dockerignore` excludes from a build; pure. Source:
# docs.docker.com/build/concepts/context, and moby/patternmatcher for unspecified cases.


@dataclass(frozen=True)
class IgnoreRule:
    """One line; the last matching line decides."""

    pattern: re.Pattern[str]
    keeps: bool
    parts: tuple[str, ...]


def parse_dockerignore(text: str) -> tuple[IgnoreRule, ...]:
    lines = (line.strip() for line in text.removeprefix("\ufeff").splitlines())
    return tuple(_parse_line(line) for line in lines if line and not line.startswith("#"))


def is_ignored(rules: Sequence[IgnoreRule], path: str) -> bool:
    """Return True if a file is excluded; a pattern of a folder excludes its content."""
    parts = path.split("/")
    names = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    ignored = False
    for rule in rules:
        if ignored == rule.keeps and any(rule.pattern.fullmatch(name) for name in names):
            ignored = not rule.keeps
    return ignored


def is_hopeless(rules: Sequence[IgnoreRule], folder: str) -> bool:
    """Return True if everything in a folder is ignored, so that it can be skipped."""
    return is_ignored(rules, folder) and not any(
        rule.keeps and _may_match_inside(rule.parts, folder.split("/")) for rule in rules
    )


def _may_match_inside(parts: Sequence[str], folders: Sequence[str]) -> bool:
    for part, folder in zip(parts, folders, strict=False):
        if "**" in part:
            return True
        if not re.fullmatch(_translate(part), folder):
            return False
    return True


def _parse_line(line: str) -> IgnoreRule:
    keeps = line.startswith("!")
    words = line.removeprefix("!").strip().split("/")
    parts = tuple(word for word in words if word not in ("", "."))
    return IgnoreRule(re.compile(_translate("/".join(parts)), re.DOTALL), keeps, parts)


def _translate(pattern: str) -> str:
    """Return the regular expression: `**` crosses folders, `*` and `?` do not."""
    done, rest = "", pattern
    while rest:
        if rest.startswith("**"):
            rest = rest[2:]
            done += "(.*/)?" if rest.startswith("/") else ".*"
            rest = rest.removeprefix("/")
        elif found := re.match(r"\[\^?[^\]/]+\]", rest):
            done, rest = done + found[0], rest[found.end() :]
        else:
            escaped = rest[0] == "\\" and len(rest) > 1
            letter = rest[1] if escaped else rest[0]
            wild = {} if escaped else {"*": "[^/]*", "?": "[^/]"}
            done, rest = done + wild.get(letter, re.escape(letter)), rest[1 + escaped :]
    return done


@dataclass(frozen=True)
class Inputs:
    """All inputs of an image; `files` are paths in the folder `context`."""

    dockerfile: Path
    context: Path
    files: tuple[str, ...]
    tag: str


def read_inputs(settings: ImageConfig, folder: Path) -> Inputs:
    """Find the inputs of a project's image. Raises ConfigError if something is missing.

    The files are all that `.dockerignore` does not exclude; without one, those that git tracks.
    """
    dockerfile = folder / settings.dockerfile
    context = folder / settings.context
    _check(settings, dockerfile, context)
    ignore = context / IGNORE_FILE
    files = _list_left(ignore, context) if ignore.is_file() else list_files(context)
    return Inputs(dockerfile, context, tuple(files), _hash(settings, dockerfile, context, files))


def warn_about_context(inputs: Inputs) -> str:
    """Return a warning about files that probably belong in the image; empty if none."""
    if (inputs.context / IGNORE_FILE).is_file():
        return ""
    said = warn_about_left_out(inputs.context)
    return said.replace("agents do not get", "the image does not get")


def copy_context(inputs: Inputs, target: Path) -> None:
    """Copy the files into an empty folder, readable for every user of the image."""
    for name in inputs.files:
        source, copy = inputs.context / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy, follow_symlinks=False)
        if not copy.is_symlink():
            copy.chmod(_mode(source))


def _check(settings: ImageConfig, dockerfile: Path, context: Path) -> None:
    if not context.is_dir():
        raise ConfigError(f"{FILE_NAME}: image.context", f"folder {context} not found")
    if not dockerfile.is_file():
        hint = "write one, or name another in deployer.yaml: image: {dockerfile: …}"
        raise ConfigError(f"{dockerfile}", "file not found", hint)
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
    """Return a file's mode as git stores it, without machine-specific bits."""
    return 0o755 if path.stat().st_mode & 0o100 else 0o644
