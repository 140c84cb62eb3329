"""This machine as `--on local` names it."""

from __future__ import annotations

from deployer.executors.local.executor import LocalExecutor
from deployer.executors.target import Target


class LocalTarget(Target):
    """Agents as processes of this machine."""

    runs_here = True

    def open(self) -> LocalExecutor:
        """Return the executor."""
        return LocalExecutor()
