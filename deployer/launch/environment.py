"""The one place that looks at this process's environment and working folder."""

from __future__ import annotations

import os
from pathlib import Path

from deployer.config.project import Flags, Project, load_project
from deployer.executors.registry import list_names


def read_environment() -> dict[str, str]:
    """Return this process's environment as it is now."""
    return dict(os.environ)


def read_project(flags: Flags, folder: Path | None = None) -> Project:
    """Read flags, environment and deployer.yaml once; `folder` is the current one if left out.

    Raises ConfigError with every complaint about the file.
    """
    return load_project(flags, read_environment(), (folder or Path.cwd()).absolute(), list_names())
