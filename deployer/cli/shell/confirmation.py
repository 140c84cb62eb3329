"""Asks on the terminal: before something is deleted for good, and for what nobody else knows."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from deployer.cli.output.render import ask
from deployer.errors import ConfigError

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def can_ask() -> bool:
    """Tell whether somebody sits at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def check_can_ask(yes: bool) -> None:
    """Refuse to delete what nobody was asked about; raises ConfigError."""
    if not yes and not can_ask():
        said = "is missing, and there is no terminal to ask on"
        raise ConfigError("--yes", said, "add --yes if you mean it")


def is_sure(question: str, yes: bool) -> bool:
    """Return True if the user agrees, by -y or on the terminal; raises ConfigError without both."""
    check_can_ask(yes)
    return yes or confirm(question)


def confirm(question: str) -> bool:
    """Ask on the terminal; anything but yes is no."""
    return ask(f"{question} [y/N]").lower() in ("y", "yes")
