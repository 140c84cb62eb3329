"""How a group of commands is made: its help shows each command's whole first sentence."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as build_command

from deployer.cli.shell.examples import add_examples
from deployer.cli.shell.usage import require_command


class CommandGroup(TyperGroup):
    """A group whose list of commands is folded where the terminal ends, and never cut."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names; raises UsageError."""
        require_command(self, ctx, args)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with the first paragraph of its help."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, summarise_help(one)) for name, one in commands])


class CommandWithOthers(TyperCommand):
    """A command with an argument and with commands below it: `results [SWEEP]`, `results get`.

    Their names are no values of that argument. A subclass gives `modules`, whose `app` has one
    command each; they are imported when they are needed.
    """

    modules: ClassVar[Mapping[str, str]] = {}

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names of the commands below."""
        return list(self.modules)

    def get_command(self, _ctx: Any, name: str) -> Any:
        """Return a command below; None if there is no such command."""
        if name not in self.modules:
            return None
        command = build_command(import_module(self.modules[name]).app)
        add_examples(command, (str(self.name), name))
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Read the command line: of a command below, if the first word names one."""
        if not args or args[0] not in self.modules:
            return super().make_context(info_name, args, parent, **extra)
        # Not of this command: its own argument is no part of what stands before theirs.
        outer = self.context_class(TyperGroup(name=info_name), info_name=info_name, parent=parent)
        return self.get_command(outer, args[0]).make_context(args[0], args[1:], outer, **extra)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands below."""
        super().format_options(ctx, formatter)
        commands = [(name, self.get_command(ctx, name)) for name in self.modules]
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
