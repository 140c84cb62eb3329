"""The input of a command: its project, its environment, its sweep."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployer.config.project import Flags, Project, load_project
from deployer.executors.base import Executor
from deployer.executors.registry import list_names
from deployer.model import SweepPath
from deployer.sweeps.creation import Draws
from deployer.sweeps.sweep_file import SweepFile
from deployer.wandb_api.server import Server


@dataclass(frozen=True)
class SweepRequest:
    """A parsed sweep file, and how its agents work.

    `continued` resumes an unfinished sweep of the same content; `one_run` means one agent per run.
    `capacity_seconds` is how long to retry if all locations are out of stock. `check_script` checks
    the script's flags; with `asks`, an error in the script's trial start stops for the user's
    decision. `packing` agents share a GPU, this machine or a pod. `words` are the command of
    `deployer run`, which has no file. `whole` is the sweep in the file if `sweep` contains only
    what another sweep has not finished.
    """

    file: Path
    sweep: SweepFile
    draws: Draws = field(default_factory=Draws)
    continued: bool = True
    one_run: bool = False
    max_seconds: float | None = None
    capacity_seconds: float = 0.0
    check_script: bool = True
    asks: bool = False
    packing: int | None = None
    words: tuple[str, ...] = ()
    whole: SweepFile | None = None

    @property
    def looked_at(self) -> SweepFile:
        """Return the sweep whose script is checked: with `--reuse`, the one in the file."""
        return self.whole or self.sweep

    @property
    def started(self) -> dict[str, Any]:
        """Return the configuration of that sweep, with the command that the user typed."""
        config = self.looked_at.config
        return {**config, "command": list(self.words)} if self.words else config


@dataclass(frozen=True)
class Session:
    """A sweep, its server, and the location of its agents, from the project."""

    project: Project
    executor: Executor
    server: Server
    path: SweepPath

    @property
    def sweep_path(self) -> str:
        return str(self.path)


def read_environment() -> dict[str, str]:
    return dict(os.environ)


def read_project(flags: Flags, folder: Path | None = None) -> Project:
    """Read flags, environment and deployer.yaml once; `folder` defaults to the current one.

    Raises ConfigError with every complaint about the file.
    """
    return load_project(flags, read_environment(), (folder or Path.cwd()).absolute(), list_names())
