"""How a group of commands is made: its help shows each command's whole first sentence."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup


class CommandGroup(TyperGroup):
    """A group whose list of commands is folded where the terminal ends, and never cut."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with the first paragraph of its help."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, summarise_help(one)) for name, one in commands])


def summarise_help(command: Any) -> str:
    """Return the first paragraph of a command's help, in one line."""
    return " ".join((command.help or "").split("\n\n")[0].split())


def make_app(description: str = "") -> typer.Typer:
    """Return an application of commands; one command alone is no group, and needs no words."""
    return typer.Typer(
        cls=CommandGroup, help=description or None, rich_markup_mode=None, add_completion=False
    )
