"""The time limit of each test, and a note of the test that each process is running.

pytest-timeout fails a test at its limit and prints the stacks of all threads. A test that hangs in
C code is not reached by its signal: a minute later faulthandler prints the stacks and ends the
process. `tests.rerun` reads the notes to say what is running.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

TEST_SECONDS = 180.0
FULL_SECONDS = 1800.0
GRACE_SECONDS = 60.0
MOST_SLOWNESS = 4.0
# What `_count` takes on the machine on which these limits were chosen, when nothing else runs.
COUNT_SECONDS = 0.165

RUNNING = "TEST_RUNNING"
HUNG = pytest.StashKey[bool]()
ERROR_FILE = pytest.StashKey[int]()


@dataclass(frozen=True)
class Note:
    """A test that a process is running, that it was running when it died, or that hung."""

    test: str
    process_id: int
    begin: float

    def __str__(self) -> str:
        return f"{self.test}, {time.time() - self.begin:.0f} s"


def read_notes(folder: Path) -> list[Note]:
    """Return the tests that are running or hung, sorted by name."""
    notes = []
    for file in folder.iterdir():
        test, _, process_id = file.read_text().partition("\n")
        if process_id:  # else it is being written
            notes.append(Note(test, int(process_id), file.stat().st_mtime))
    return sorted(notes, key=lambda note: note.test)


def measure_slowness() -> float:
    """Return how many times slower this machine is than the one of the limits: 1 to 4."""
    return min(max(min(_count() for _ in range(3)) / COUNT_SECONDS, 1.0), MOST_SLOWNESS)


def _count() -> float:
    begin = time.perf_counter()
    sum(number % 7 for number in range(2_000_000))
    return time.perf_counter() - begin


def get_limit(item: pytest.Item) -> float:
    """Return the seconds that a test may take: its mark `limit`, else by its group."""
    mark = item.get_closest_marker("limit")
    if mark:
        seconds = mark.args[0]
    elif item.get_closest_marker("full"):
        seconds = FULL_SECONDS
    else:
        seconds = float(os.environ.get("TEST_SECONDS", TEST_SECONDS))
    return float(seconds) * float(os.environ.get("TEST_SLOWNESS", "1"))


def pytest_configure(config: pytest.Config) -> None:
    """Print the stacks of all threads on SIGUSR1."""
    config.stash[ERROR_FILE] = os.dup(2)  # pytest captures 2 itself
    faulthandler.register(signal.SIGUSR1, file=config.stash[ERROR_FILE])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Limit a test, and note it while it runs."""
    seconds = get_limit(item)
    item.add_marker(pytest.mark.timeout(seconds, method="signal"), append=False)
    note = _write_note(item)
    error_file = item.config.stash[ERROR_FILE]
    faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True, file=error_file)
    done = yield
    faulthandler.cancel_dump_traceback_later()
    if note and not item.stash.get(HUNG, False):
        note.unlink()
    return done


def _write_note(item: pytest.Item) -> Path | None:
    if RUNNING not in os.environ:
        return None
    note = Path(os.environ[RUNNING], os.environ.get("PYTEST_XDIST_WORKER", "main"))
    if note.exists():  # of a test that hung
        note = note.with_name(f"{note.name}-{time.time_ns()}")
    note.write_text(f"{item.nodeid}\n{os.getpid()}")
    return note


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Mark a test that reached its limit."""
    report = yield
    if report.failed and "from pytest-timeout" in str(report.longrepr):
        item.stash[HUNG] = True
    return report
