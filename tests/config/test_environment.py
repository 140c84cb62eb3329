"""The environment is read where a program begins; what stands lower is handed what was read."""

from __future__ import annotations

import re
from pathlib import Path

import deployer

PACKAGE = Path(deployer.__file__).parent
READS = re.compile(r"\bos\.(environb?\b|getenv)")
# Programs of their own: the supervisor, pods' data loader and idle timer, the backend's process,
# a rehearsal.
PROGRAMS = (
    "agent/",
    "loader/",
    "executors/gke/idle_timer.py",
    "backend/server/foreground.py",
    "scripts/rehearsal/",
)
READERS = {
    "launch/request.py": "the one place that reads it for commands and the Python API",
    "config/paths.py": "the state folder, which also programs without a project look for",
    "backend/server/daemon.py": "the backend's process inherits ours",
    "backend/scheduling/search.py": "sets the number of threads of a child process",
    "gke/api/__init__.py": "sets how much gRPC prints and how often the metadata server is asked",
    "gke/api/credentials.py": "looks for credentials as Google's library does",
    "sweeps/configuration_list.py": "the text of a program that agents start",
    "sweeps/sweep_file.py": "the text of a program that agents start",
}


def test_nothing_below_reads_the_environment_again() -> None:
    found = {
        place
        for file in PACKAGE.rglob("*.py")
        if READS.search(file.read_text())
        and not (place := str(file.relative_to(PACKAGE))).startswith(PROGRAMS)
    }
    assert found == set(READERS)
