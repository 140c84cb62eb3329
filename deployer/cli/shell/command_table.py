"""The table of commands, so that `deployer --help` imports none of them.

Typer needs pydantic once a command has parameters (80 ms), and commands need requests and more.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup
from typer.main import get_command as build_command

from deployer.cli.shell.examples import add_examples
from deployer.cli.shell.usage import require_command

if TYPE_CHECKING:
    from collections.abc import Mapping

# Command: its module in `deployer.cli`, and its line in `deployer --help`.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "up": (
        "running.up",
        "Run a sweep to its end: create or continue it, start agents, watch, rank.",
    ),
    "run": (
        "running.run",
        "Run one command once, as `up` runs a sweep's: deployer run -- COMMAND.",
    ),
    "init": ("init", "Write a sweep file from a script's flags, or from a sweep."),
    "plan": ("plan", "Print what `up` would send; contacts nothing."),
    "doctor": ("doctor", "Check everything that `up` needs, and say how to mend it."),
    "watch": ("running.watch", "Show a sweep live until it is over."),
    "results": (
        "results.results",
        "Show a sweep's ranking, coverage and failures; copy its models.",
    ),
    "importance": (
        "results.importance",
        "Show which parameters explain the metric, and which may not.",
    ),
    "report": (
        "results.report",
        "Write a sweep's report: one file, Markdown, or a page to look at.",
    ),
    "heal": ("running.heal", "Run what is lost or failed again."),
    "reproduce": (
        "running.reproduce",
        "Run a configuration again as it ran, and compare its metric.",
    ),
    "down": ("down", "End a sweep's agents and delete what was made for it; results stay."),
    "sweep": (
        "sweep.sweep",
        "Check, create, import, list, show, pause, resume, stop or delete sweeps.",
    ),
    "agents": ("agents", "Start, list, scale, drain, follow or end agents."),
    "data": ("data", "Put, bring, list, get or delete the data sets that runs read."),
    "rights": (
        "cluster.rights",
        "Print the Role that an administrator grants to whoever runs sweeps.",
    ),
    "secret": ("cluster.secret", "Keep the W&B key in the cluster: create, rotate, show, delete."),
    "drivers": ("cluster.drivers", "GPU drivers of a cluster's nodes: status, install, remove."),
    "image": ("cluster.image", "Push, save or load the image that agents run in."),
    "gke": ("cluster.gke", "Plan, make, list or remove a GKE cluster."),
    "orphans": ("cluster.orphans", "Find and remove what older or crashed runs left in the cloud."),
    "backend": ("backend.backend", "Run the embedded W&B-compatible backend."),
}


class LazyGroup(TyperGroup):
    """The root command: knows the names, loads a command's module when it is called."""

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the commands in the order in which they are shown."""
        return list(COMMANDS)

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        """Import and return a command; None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"deployer.cli.{COMMANDS[cmd_name][0]}")
        command = build_command(module.app)
        command.name = cmd_name
        add_examples(command, (cmd_name,))
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names; raises UsageError."""
        require_command(self, ctx, args)
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write the list of commands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])
