"""Run pytest within a time limit; run what failed once more, alone, and count what passes then.

`python -m tests.rerun [--limit SECONDS] [--each SECONDS] PYTEST-ARGUMENTS`. A test that fails twice
fails the run, and so do more than two that fail once: a test that passes only sometimes is a defect
of the test or of what it tests. So does a test that reached its own limit or killed its process.

`--limit` is for everything, `--each` for a test without a limit of its own. Both grow with the
measured slowness of the machine; `TEST_DEADLINE`, seconds since the epoch, does not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests import limits

MOST_UNSTABLE = 2
# More failures than this are one cause or a broken tree; to run them again would only take time.
MOST_RERUN = 12
# Those of pytest-xdist: nothing runs beside a second try.
SIDE_BY_SIDE = re.compile(
    r"-n|--numprocesses|--dist|--maxschedchunk|--no-loadscope-reorder|--durations"
)
OUT_OF_TIME = 124  # as timeout(1)
QUIET_SECONDS = 60.0
POLL_SECONDS = 0.2
END_SECONDS = 10.0


def main(arguments: Sequence[str]) -> int:
    """Run the tests, once more those that fail; return the exit status."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--limit", type=float, default=float("inf"))
    parser.add_argument("--each", type=float, default=limits.TEST_SECONDS)
    options, words = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        slowness = limits.measure_slowness()
        end = time.time() + options.limit * slowness
        run = Run(Path(folder), min(end, float(os.environ.get("TEST_DEADLINE", "inf"))))
        os.environ["TEST_SLOWNESS"] = f"{slowness:.2f}"
        os.environ["TEST_SECONDS"] = f"{options.each:g}"
        return run.finish(words)


@dataclass
class Run:
    """A first try and a second one. `end`: when both have to be over, by time.time()."""

    folder: Path
    end: float

    def __post_init__(self) -> None:
        self.running.mkdir()
        os.environ[limits.RUNNING] = str(self.running)

    @property
    def running(self) -> Path:
        """The folder of the notes of running tests."""
        return self.folder / "running"

    def finish(self, arguments: Sequence[str]) -> int:
        """Run the tests, once more those that fail; return the exit status."""
        first = self._run(arguments)
        if first == OUT_OF_TIME:
            return first
        if hung := [note.test for note in limits.read_notes(self.running)]:
            _say(f"{len(hung)} reached their time limit or ended their process:", *hung)
            return first or int(pytest.ExitCode.TESTS_FAILED)
        failed = self._read_failed()
        if first != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= MOST_RERUN:
            return first
        _say(f"{len(failed)} failed; once more, one at a time")
        again = ["--last-failed", "--last-failed-no-failures=none"]
        second = self._run([*_without_workers(arguments), *again])
        return judge(second, sorted(failed - self._read_failed()))

    def _run(self, arguments: Sequence[str]) -> int:
        """Run pytest to its end or to the limit; name the tests that run long in silence."""
        cache = f"cache_dir={self.folder / 'cache'}"
        process = psutil.Popen([sys.executable, "-m", "pytest", *arguments, "-o", cache])
        last = time.time()
        while process.poll() is None:
            last = max(last, self.running.stat().st_mtime)  # when a test began or ended
            if time.time() > self.end:
                self._name("the time limit is reached; running:")
                self._stop(process)
                return OUT_OF_TIME
            if time.time() - last > QUIET_SECONDS:
                self._name("still running:")
                last = time.time()
            with suppress(psutil.TimeoutExpired):
                process.wait(POLL_SECONDS)
        return int(process.returncode)

    def _name(self, what: str) -> None:
        _say(f"\n{what}", *map(str, limits.read_notes(self.running)))

    def _stop(self, process: psutil.Process) -> None:
        """Have the running tests print their stacks, then end pytest and all that it started."""
        for note in limits.read_notes(self.running):
            with suppress(ProcessLookupError):
                os.kill(note.process_id, signal.SIGUSR1)
        time.sleep(1)
        family = [process, *process.children(recursive=True)]
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.terminate()
        _, left = psutil.wait_procs(family, END_SECONDS)
        for member in left:
            with suppress(psutil.NoSuchProcess):
                member.kill()

    def _read_failed(self) -> set[str]:
        file = self.folder / "cache/v/cache/lastfailed"
        return set(json.loads(file.read_text())) if file.exists() else set()


def _without_workers(arguments: Sequence[str]) -> list[str]:
    """Leave out what lets tests run side by side, together with its values."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if not SIDE_BY_SIDE.match(word):
            kept.append(word)
        elif word in ("-n", "--numprocesses", "--dist", "--maxschedchunk", "--durations"):
            next(words, None)
    return kept


def judge(second: int, unstable: Sequence[str]) -> int:
    """Name the tests that passed only the second time; too many of them are a failure."""
    if unstable:
        _say(f"unstable, {len(unstable)} (at most {MOST_UNSTABLE} are allowed):", *unstable)
    if second == pytest.ExitCode.OK and len(unstable) > MOST_UNSTABLE:
        return int(pytest.ExitCode.TESTS_FAILED)
    return second


def _say(line: str, *below: str) -> None:
    sys.stdout.write("".join(f"{one}\n" for one in (line, *(f"  {one}" for one in below))))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
