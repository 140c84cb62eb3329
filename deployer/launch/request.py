"""What a command is asked for: its project, the environment it was typed in, its sweep."""

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
    """A sweep file as it was read, and how its agents shall work.

    `continued` goes on with an unfinished sweep of the same content; `one_run` is an agent for each
    run; `capacity_seconds` is how long to ask again where all is out of stock.
    `check_script` asks the script about its flags; `asks` stops where the script's trial start has
    raised an error, for the user to say. `packing` agents share a GPU, this machine or a pod.
    `words` are the command of `deployer run`, which has no file. `whole` is the sweep in the file,
    where `sweep` is only what another one has not finished.
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
        """Return the sweep whose script is asked: with `--reuse`, the one in the file."""
        return self.whole or self.sweep

    @property
    def started(self) -> dict[str, Any]:
        """Return the configuration of that sweep, with the command that the user typed."""
        config = self.looked_at.config
        return {**config, "command": list(self.words)} if self.words else config


@dataclass(frozen=True)
class Session:
    """A sweep, its server, and where its agents run, as the project has it."""

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
    """Read flags, environment and deployer.yaml once; `folder` is the current one if left out.

    Raises ConfigError with every complaint about the file.
    """
    return load_project(flags, read_environment(), (folder or Path.cwd()).absolute(), list_names())
