"""Asks before something is deleted that cannot be had back."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from deployer.cli.output.render import say

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def can_ask() -> bool:
    """Tell whether somebody sits at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Ask on the terminal; anything but yes is no."""
    say(f"{question} [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
