"""A sweep that a command works on: what it needs is looked up once, and handed down."""

from __future__ import annotations

from dataclasses import dataclass

from deployer.config.project import Project
from deployer.executors.base import Executor
from deployer.model import SweepPath
from deployer.wandb_api.server import Server


@dataclass(frozen=True)
class Session:
    """A sweep, its server, and where its agents run, as the project has it."""

    project: Project
    executor: Executor
    server: Server
    path: SweepPath

    @property
    def sweep_path(self) -> str:
        """Return ENTITY/PROJECT/SWEEP_ID."""
        return str(self.path)
