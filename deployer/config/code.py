"""The code that a sweep's agents run, once it is decided; pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# By which W&B's SDK knows the commit where it finds no repository.
COMMIT_VARIABLE = "WANDB_GIT_COMMIT"
REPOSITORY_VARIABLE = "WANDB_GIT_REMOTE_URL"


@dataclass(frozen=True)
class Code:
    """Runs on this machine work in `folder`, and pods in an archive of its files.

    Of code from git, `commit` is the whole one, and `repository` its address without credentials.
    """

    folder: Path
    commit: str = ""
    repository: str = ""

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """Return the environment that tells runs their commit."""
        named = {COMMIT_VARIABLE: self.commit, REPOSITORY_VARIABLE: self.repository}
        return tuple((name, value) for name, value in named.items() if value)
