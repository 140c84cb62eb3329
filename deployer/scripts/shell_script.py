"""Shell scripts that do no more than set variables and start one program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from deployer.scripts.unseen import Unseen

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
SPECIAL = re.compile(r"[$`|;&<>(){}*?]")
ALL_ARGUMENTS = "$@"


def read_shell_script(path: Path, arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that a script sets and the command that it starts with arguments.

    Raises Unseen where it does more than that.
    """
    try:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    except (OSError, UnicodeDecodeError):
        raise Unseen(f"{path.name} cannot be read here") from None
    variables: dict[str, str] = {}
    command: list[str] = []
    for words in _list_lines(path, text):
        if command:
            raise Unseen(f"{path.name}: a shell script that does more than start one program")
        if words[0] == "set":
            continue
        if not _assign(words, variables):
            command = words[1:] if words[0] == "exec" else words
    if ALL_ARGUMENTS not in command:
        raise Unseen(f'{path.name}: a shell script that hands on no "$@"')
    at = command.index(ALL_ARGUMENTS)
    return variables, [*command[:at], *arguments, *command[at + 1 :]]


def _list_lines(path: Path, text: str) -> list[list[str]]:
    try:
        lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    except ValueError:
        raise Unseen(f"{path.name}: a shell script that does more than start one program") from None
    for word in (word for words in lines for word in words):
        if SPECIAL.search(word) and word != ALL_ARGUMENTS:
            raise Unseen(f"{path.name}: a shell script that does more than start one program")
    return [words for words in lines if words]


def _assign(words: list[str], variables: dict[str, str]) -> bool:
    """Take over a line that only sets variables; tell whether it is one."""
    named = words[1:] if words[0] == "export" else words
    found = [ASSIGNMENT.fullmatch(word) for word in named]
    if not found or not all(found):
        return False
    variables.update({one[1]: one[2] for one in found if one})
    return True
