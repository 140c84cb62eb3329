"""What is wrong or doubtful in a sweep's configuration, as data; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Place = tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """What is wrong where; `path` is the place in the file, and an error is what cannot run."""

    path: Place
    message: str
    hint: str = ""
    severity: Literal["error", "warning"] = "error"


Problems = Iterator[Problem]


def doubt(path: Place, message: str, hint: str) -> Problem:
    """Return a warning: W&B runs it too."""
    return Problem(path, message, hint, "warning")


def join_path(path: Place) -> str:
    """Return a path as it is shown: `parameters.lr.values[0]`."""
    return ".".join(path).replace(".[", "[")
