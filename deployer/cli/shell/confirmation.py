"""Asks on the terminal: before something is deleted for good, and for what nobody else knows."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from deployer.cli.output.render import ask, say
from deployer.errors import CloudError, ConfigError


def can_ask() -> bool:
    """Tell whether somebody sits at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def check_can_ask(yes: bool, otherwise: str = "") -> None:
    """Refuse to delete what nobody was asked about; raises ConfigError.

    `otherwise` adds another way to the hint.
    """
    if not yes and not can_ask():
        said = "is missing, and deployer cannot ask without a terminal"
        hint = "; ".join(filter(None, ("add --yes to confirm", otherwise)))
        raise ConfigError("--yes", said, hint)


def is_sure(question: str, yes: bool, otherwise: str = "") -> bool:
    """Return True if the user agrees, by -y or on the terminal; raises ConfigError without both.

    `otherwise` adds another way to the hint.
    """
    check_can_ask(yes, otherwise)
    return yes or confirm(question)


def check_held(held: Sequence[tuple[str, bool]], name: str, yes: bool, *, named: bool) -> bool:
    """List what keeps a cluster and whether it is another owner's; return True if it is to go.

    Another owner's must be `named` on the command line, with -y. False if nothing keeps the cluster
    called `name`. Raises DeployerError if it is to stay.
    """
    for words, foreign in held:
        if foreign and not (yes and named):
            hint = f"if its owner agrees: deployer orphans {name} --yes"
            raise CloudError(f"another owner's cluster stays: {words}", hint, "NOT_YOURS")
        say(words)
    if held and not is_sure("delete it with everything in it?", yes):
        raise CloudError("nothing was deleted", "", "HELD")
    return bool(held)


def confirm(question: str) -> bool:
    """Ask on the terminal; anything but yes is no."""
    return ask(f"{question} [y/N]").lower() in ("y", "yes")
