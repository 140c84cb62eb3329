"""A project folder as `deployer` reads it, in a test that starts no process."""

from __future__ import annotations

from pathlib import Path

from deployer.config.project import Flags, Project, load_project
from deployer.executors.registry import list_names


def read_project(folder: Path, flags: Flags | None = None, **environment: str) -> Project:
    """Read the folder with an empty home and no environment but what is given."""
    alone = {"HOME": str(folder), **environment}
    return load_project(flags or Flags(), alone, folder, list_names())
