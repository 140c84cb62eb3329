"""How long the command line takes to say anything."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.bench.figures import Figure, compare

ROUNDS = 15


def bench_help(_: Path) -> list[Figure]:
    """Compare `deployer --help` with the import of the library that it is made with."""
    ours = [str(Path(sys.executable).with_name("deployer")), "--help"]
    theirs = [sys.executable, "-c", "import typer"]
    _seconds(ours), _seconds(theirs)  # once unmeasured, so that files are in the cache
    figure = compare(
        "deployer --help / python -c 'import typer'",
        1.4,
        ROUNDS,
        lambda: _seconds(ours),
        lambda: _seconds(theirs),
    )
    return [figure]


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start
