"""All commands of the command line, as typer knows them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from deployer.cli import app

Words = tuple[str, ...]


@cache
def list_commands() -> dict[Words, Any]:
    """Return each command and group by the words that name it, in the order of the help."""
    return dict(_walk(get_command(app), ()))


def is_group(command: Any) -> bool:
    """Tell whether a command has commands of its own, and does nothing without them."""
    return isinstance(command, TyperGroup)


def _walk(command: Any, words: Words) -> Iterator[tuple[Words, Any]]:
    yield words, command
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from _walk(command.get_command(None, name), (*words, name))
