"""What one `up` is asked for, beyond what the project says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from deployer.sweeps.creation import Draws
from deployer.sweeps.sweep_file import Sweep


@dataclass(frozen=True)
class Request:
    """A sweep file as it was read, and how its agents shall work.

    `continued` goes on with an unfinished sweep of the same content; `one_run` is an agent for each
    run; `capacity_seconds` is how long to ask again where all is out of stock. `lock` is where the
    lock file is written; `check_script` asks the script about its flags.
    """

    file: Path
    sweep: Sweep
    draws: Draws = field(default_factory=Draws)
    continued: bool = True
    one_run: bool = False
    max_seconds: float | None = None
    capacity_seconds: float = 0.0
    lock: Path | None = None
    check_script: bool = True
