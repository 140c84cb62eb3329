"""A project folder as `deployer` reads it, in a test that starts no process; our own sweeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from deployer.config.project import Flags, Project, load_project
from deployer.executors.base import WantedNumbers
from deployer.executors.local.executor import LocalExecutor
from deployer.executors.registry import list_names
from deployer.model import Wanted

SWEEPS = Path(__file__).parents[1] / "sweeps"


class GivenNumber(WantedNumbers):
    """The number of agents that are wanted of one sweep, which is given."""

    def __init__(self, sweep_path: str, number: Wanted | None) -> None:
        self.sweep_path, self.number = sweep_path, number

    def get(self, sweep_path: str) -> Wanted | None:
        return self.number if sweep_path == self.sweep_path else None

    def change(self, sweep_path: str, change: Callable[[Wanted | None], Wanted | None]) -> None:
        raise NotImplementedError

    def withdraw(self, sweep_path: str | None = None, *, everyone: bool = False) -> None:
        raise NotImplementedError


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
