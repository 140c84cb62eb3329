"""What several tests of the cloud begin with: a specification, and the door that is not patient."""

from __future__ import annotations

import os
import time
from pathlib import Path

from deployer.gke.api.client import Gke, open_gke
from deployer.gke.api.credentials import ApiPatience
from deployer.gke.specification import ClusterSpec, load_spec

NAME = "tests"
FIRST, SECOND = "us-central1-a", "europe-west4-a"
SPEC = f"""
name: {NAME}
locations: [{FIRST}, {SECOND}]
gpus:
  - accelerator: nvidia-tesla-t4
    machine_type: n1-standard-8
  - accelerator: nvidia-l4
    machine_type: g2-standard-8
"""
# Long enough for a busy machine, short enough for a test of an answer that never comes.
TIMEOUTS_SECONDS = (5.0, 1.0)


def write_spec(folder: Path, text: str = SPEC) -> Path:
    """Write the specification of the tests and return its path."""
    path = folder / "cluster.yaml"
    path.write_text(text)
    return path


def read_spec(folder: Path, text: str = SPEC) -> ClusterSpec:
    """Return the specification of the tests."""
    return load_spec(str(write_spec(folder, text)), folder)


def open_client() -> Gke:
    """Return the door that a command would have, which waits for no trouble to pass."""
    opened = open_gke(None, os.environ)
    return Gke(
        opened.project,
        opened.credentials,
        os.environ,
        TIMEOUTS_SECONDS,
        sleep=lambda _: None,
        patience=ApiPatience(),
    )


class Clock:
    """A clock that runs ahead while somebody sleeps."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        """Return the time, in seconds."""
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        """Sleep for a moment, and say that it was as long as asked."""
        time.sleep(min(seconds, 0.02))
        self.ahead += seconds
