"""Options that all commands of `deployer backend` share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from deployer.config.paths import backend_folder

DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="FOLDER", help="The data folder; left out: this user's."),
]
ExecutorOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="EXECUTOR",
        envvar="DEPLOYER_ON",
        help="local, kubernetes or gke; left out: as deployer.yaml has it, else local.",
    ),
]


class LogFormat(StrEnum):
    """The formats of a server's log."""

    TEXT = "text"
    JSON = "json"


def choose_folder(data: Path | None) -> Path:
    """Return the data folder of a backend on this machine."""
    return data.expanduser().resolve() if data else backend_folder()
