"""Groups of commands, and the table of all commands, so `deployer --help` imports none.

Typer needs pydantic once a command has parameters (80 ms), and commands need requests and more.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command as build_command

from deployer.cli.shell.options import CommandLine, WithOptions
from deployer.cli.shell.usage import add_examples, require_command

# Command: its module in `deployer.cli`, with the name of its `App` unless that is `app`, and its
# line in `deployer --help`.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "up": (
        "up",
        "Run a sweep to its end: create or continue it, start agents, watch, rank.",
    ),
    "run": (
        "up:run_app",
        "Run one command as a sweep of one run: deployer run -- COMMAND.",
    ),
    "init": ("init", "Write a sweep file from a script's flags, or from a sweep."),
    "plan": ("plan", "Print what `up` would send, without contacting a server."),
    "doctor": ("doctor", "Check everything that `up` needs, and suggest fixes."),
    "watch": ("watch", "Show a sweep live until it ends."),
    "results": (
        "results",
        "Show a sweep's ranking, coverage and failures; copy its models.",
    ),
    "importance": (
        "results:importance_app",
        "Show how important each parameter is.",
    ),
    "report": (
        "results:report_app",
        "Write a sweep's report as one HTML page.",
    ),
    "heal": ("up:heal_app", "Run lost and failed configurations again."),
    "down": ("down", "End a sweep's agents and delete its objects, but not its results."),
    "sweep": (
        "sweep",
        "Check, create, import, list, show, pause, resume, stop or delete sweeps.",
    ),
    "agents": ("agents", "Start, list, scale, drain, follow or end agents."),
    "data": ("data", "Manage the data sets that runs read: put, preload, list, get, delete."),
    "rights": (
        "cluster:rights_app",
        "Print the Role that users need to run sweeps, for an administrator to grant.",
    ),
    "secret": ("cluster:secret_app", "Manage the W&B key in the cluster: set, show, delete."),
    "drivers": ("cluster:drivers_app", "Show, install or remove GPU drivers of a cluster's nodes."),
    "image": ("image", "Push, save or load the image that agents run in."),
    "gke": ("cloud:gke_app", "Plan, create, list or delete a GKE cluster."),
    "orphans": ("cloud:orphans_app", "Find and remove leftovers of older or crashed sweeps."),
    "backend": ("backend", "Run the embedded W&B-compatible backend."),
}


class Group(WithOptions, TyperGroup):
    """A group whose list of commands is wrapped at the terminal's width, never truncated."""

    context_class = CommandLine

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names; raises UsageError."""
        require_command(self, ctx, args)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(one, self.summarise(ctx, one)) for one in self.list_commands(ctx)])

    def summarise(self, ctx: Any, name: str) -> str:
        return summarise_help(self.get_command(ctx, name))


class Root(Group):
    """`deployer`: knows all names, and imports a command's module on use."""

    def list_commands(self, _ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: Any, name: str) -> Any:
        """Import and return a command; None if it does not exist."""
        if name not in COMMANDS:
            return None
        return load_command(f"deployer.cli.{COMMANDS[name][0]}", (name,))

    def summarise(self, _ctx: Any, name: str) -> str:
        """Return a command's line in the help, without importing it."""
        return COMMANDS[name][1]


def load_command(place: str, words: tuple[str, ...]) -> Any:
    """Import `MODULE` or `MODULE:APP` and return its command, with examples in its help."""
    module, _, app = place.partition(":")
    command = build_command(getattr(import_module(module), app or "app"))
    command.name = words[-1]
    add_examples(command, words)
    return command


def summarise_help(command: Any) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())
