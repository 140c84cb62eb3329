"""Run pytest; run what failed once more, alone, and name and count what passes only then.

`python -m tests.rerun PYTEST-ARGUMENTS`. A test that fails twice fails the run, and so do more than
two that fail once: a test that passes only sometimes is a defect of the test or of what it tests.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

MOST_UNSTABLE = 2
# More failures than this are one cause or a broken tree; to run them again would only take time.
MOST_RERUN = 12
# Those of pytest-xdist: nothing runs beside a second try.
SIDE_BY_SIDE = re.compile(
    r"-n|--numprocesses|--dist|--maxschedchunk|--no-loadscope-reorder|--durations"
)


def main(arguments: Sequence[str]) -> int:
    """Run the tests, once more those that fail; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        first = _run([*arguments, "-o", f"cache_dir={cache}"])
        if first != pytest.ExitCode.TESTS_FAILED:
            return first
        failed = _read_failed(cache)
        if not 0 < len(failed) <= MOST_RERUN:
            return first
        _say(f"{len(failed)} failed; once more, one at a time")
        again = ["--last-failed", "--last-failed-no-failures=none", "-o", f"cache_dir={cache}"]
        second = _run([*_without_workers(arguments), *again])
        return _judge(second, sorted(failed - _read_failed(cache)))


def _run(arguments: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments]).returncode


def _read_failed(cache: Path) -> set[str]:
    file = cache / "v/cache/lastfailed"
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


def _judge(second: int, unstable: Sequence[str]) -> int:
    """Say which tests passed only the second time; too many of them are a failure."""
    if unstable:
        _say(f"unstable, {len(unstable)} (at most {MOST_UNSTABLE} are allowed):")
        for name in unstable:
            _say(f"  {name}")
    if second == pytest.ExitCode.OK and len(unstable) > MOST_UNSTABLE:
        return int(pytest.ExitCode.TESTS_FAILED)
    return second


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
