"""Moves a backend's wall clock, as an administrator or a bad time server would."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "DEPLOYER_BACKEND_CLOCK_FILE"


@dataclass(frozen=True)
class Clock:
    """A file with the seconds that a backend adds to the time of day; none means zero."""

    file: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return what makes a backend read the file."""
        return {VARIABLE: str(self.file)}

    def move(self, seconds: float) -> None:
        """Set the clock so many seconds ahead of the true time, behind it if negative."""
        draft = self.file.with_suffix(".new")
        draft.write_text(str(seconds))
        os.replace(draft, self.file)
