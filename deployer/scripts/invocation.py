"""Which script a command starts, seen through launchers; files are looked at, nothing is run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from deployer.scripts.launchers import LAUNCHERS, PREFIXES, Launcher
from deployer.scripts.shell_script import read_shell_script
from deployer.scripts.unseen import Unseen

PYTHON = re.compile(r"(.*/)?(python|pypy)[0-9.]*")
PLAIN_FLAG = re.compile(r"-[bBdEiIOPqsSuvx]+")
FLAGS_WITH_WORD = ("-W", "-X", "--check-hash-based-pycs")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
SHELLS = ("sh", "bash", "dash", "zsh")


@dataclass(frozen=True)
class Invocation:
    """A script, or a module, and what its interpreter is started with.

    `interpreter` are words such as `python -u`; `arguments` those behind the script.
    """

    interpreter: tuple[str, ...]
    target: str
    module: bool
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """Return the script as a person names it."""
        return f"-m {self.target}" if self.module else self.target


def see_through(words: Sequence[str], folder: Path, path: str) -> Invocation:
    """Return what a command starts in a folder, with this PATH. Raises Unseen, which says why."""
    found = _read(list(words), folder, path)
    if not found.module and not (folder / found.target).is_file():
        raise Unseen(f"there is no file {found.target} here")
    return found


def see_elsewhere(words: Sequence[str]) -> Invocation:
    """Return what a command starts where none of its files can be looked at. Raises Unseen."""
    return _read(list(words), Path(os.devnull), None)


def _read(words: list[str], folder: Path, path: str | None) -> Invocation:
    if not words:
        raise Unseen("its command starts nothing")
    first, name = words[0], Path(words[0]).name
    if name == "env":
        return _read_env(words[1:], folder, path)
    if PYTHON.fullmatch(first):
        return _read_python(words)
    if name in SHELLS:
        return _read_shell(words, folder, path)
    for prefix in PREFIXES:
        rest = prefix.skip(words)
        if rest is not None:
            kept = tuple(words[: len(words) - len(rest)])
            rest = ["python", *rest] if rest[:1] and rest[0].endswith(".py") else rest
            inner = _read(rest, folder, path)
            return replace(inner, interpreter=(*kept, *inner.interpreter))
    for launcher in LAUNCHERS:
        if launcher.is_command(words):
            beside = _find_python_beside(first, path)
            return _launch(launcher, words[len(launcher.command) :], (beside,))
    return _read_file(words, folder, path)


def _read_env(words: list[str], folder: Path, path: str | None) -> Invocation:
    variables: dict[str, str] = {}
    while words and (found := ASSIGNMENT.fullmatch(words[0])):
        variables[found[1]] = found[2]
        words = words[1:]
    if words and words[0].startswith("-"):
        raise Unseen(f"env {words[0]}: what it starts cannot be seen")
    inner = _read(words, folder, path)
    return replace(inner, variables={**variables, **inner.variables})


def _read_python(words: list[str]) -> Invocation:
    kept, rest = [words[0]], words[1:]
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
        count = 2 if rest[0] in FLAGS_WITH_WORD else 1
        if count == 1 and not PLAIN_FLAG.fullmatch(rest[0]) and rest[0][:2] not in FLAGS_WITH_WORD:
            raise Unseen(f"{words[0]} {rest[0]}: what it starts cannot be seen")
        kept, rest = kept + rest[:count], rest[count:]
    if not rest or rest[0] in ("-c", "-"):
        raise Unseen("its command holds the code itself")
    if rest[0] != "-m":
        return Invocation(tuple(kept), rest[0], False, tuple(rest[1:]))
    if len(rest) < 2:
        raise Unseen("python -m names no module")
    for launcher in LAUNCHERS:
        if rest[1] in launcher.modules:
            return _launch(launcher, rest[2:], tuple(kept))
    return Invocation(tuple(kept), rest[1], True, tuple(rest[2:]))


def _launch(launcher: Launcher, words: list[str], python: tuple[str, ...]) -> Invocation:
    module, rest = launcher.skip_flags(words)
    if not rest:
        raise Unseen(f"{launcher.command[0]} names no script")
    found = Invocation(python, rest[0], module, tuple(rest[1:]), launcher.variables)
    if not module and not rest[0].endswith(".py"):
        raise Unseen(f"{launcher.command[0]} {rest[0]}: not a Python script")
    return found


def _find_python_beside(program: str, path: str | None) -> str:
    """Return the interpreter of an installed command: the one in its folder."""
    if path is None:
        return "python"
    found = shutil.which(program, path=path)
    if not found:
        raise Unseen(f"there is no {program} here")
    beside = Path(found).parent / "python"
    return str(beside) if beside.exists() else "python"


def _read_shell(words: list[str], folder: Path, path: str | None) -> Invocation:
    if len(words) < 2 or words[1].startswith("-"):
        raise Unseen(f"{' '.join(words[:2])}: what a shell does cannot be seen")
    variables, command = read_shell_script(folder / words[1], words[2:])
    inner = _read(command, folder, path)
    return replace(inner, variables={**variables, **inner.variables})


def _read_file(words: list[str], folder: Path, path: str | None) -> Invocation:
    """Read the first line of a program of the project: its interpreter."""
    file = folder / words[0]
    if "/" not in words[0] and not file.is_file():
        raise Unseen(f"{words[0]}: what it starts cannot be seen")
    try:
        first = file.read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        raise Unseen(f"{words[0]}: what it starts cannot be seen") from None
    if not first.startswith("#!"):
        raise Unseen(f"{words[0]}: what it starts cannot be seen")
    return _read([*first[2:].split(), *words], folder, path)
