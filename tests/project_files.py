"""A project folder as `deployer` reads it, in a test that starts no process; our own sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deployer.config.project import Flags, Project, load_project
from deployer.executors.local.executor import LocalExecutor
from deployer.executors.registry import list_names

SWEEPS = Path(__file__).parents[1] / "sweeps"


def list_sweeps(pattern: str = "*.yaml") -> list[Path]:
    """Return our sweep files of these names."""
    return sorted(SWEEPS.glob(pattern))


def read_project(folder: Path, flags: Flags | None = None, **environment: str) -> Project:
    """Read the folder with an empty home and no environment but what is given."""
    alone = {"HOME": str(folder), **environment}
    return load_project(flags or Flags(), alone, folder, list_names())


def build_project(environment: Mapping[str, str] | None = None) -> Project:
    """Return a project without a folder or a file, in the environment that is given."""
    return load_project(Flags(), dict(environment or {}), Path("/no/such/folder"), list_names())


def open_local(environment: Mapping[str, str], grace_seconds: float = 20.0) -> LocalExecutor:
    """Return this machine as a place of agents that have so long to end."""
    executor = LocalExecutor("local", build_project(environment))
    executor.grace_seconds = grace_seconds
    return executor
