"""What one `up` is asked for, beyond what the project says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployer.sweeps.creation import Draws
from deployer.sweeps.sweep_file import SweepFile


@dataclass(frozen=True)
class Request:
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
