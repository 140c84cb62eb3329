"""The rule for tests that fail: run once more alone, named and counted when they pass then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
# `once` fails at its first try, `always` at each.
TESTS = """
import os, pathlib, pytest

@pytest.mark.parametrize("name", {names})
def test_it(name):
    tried = pathlib.Path("tried-" + name)
    again = tried.exists()
    tried.touch()
    assert not name.startswith("always")
    assert not name.startswith("once") or (again and "PYTEST_XDIST_WORKER" not in os.environ)
"""


@pytest.mark.parametrize(
    ("names", "workers", "status", "said"),
    [
        (["good", "once-1", "once-2"], 2, 0, ["unstable, 2", "test_it[once-1]", "test_it[once-2]"]),
        (["once-1", "once-2", "once-3"], 0, 1, ["unstable, 3", "test_it[once-3]"]),
        (["good", "once-1", "always"], 0, 1, ["unstable, 1", "test_it[once-1]", "1 failed"]),
        ([f"always-{number}" for number in range(13)], 0, 1, ["13 failed"]),
    ],
)
def test_what_passes_only_the_second_time_is_named_and_counted(
    tmp_path: Path, names: list[str], workers: int, status: int, said: list[str]
) -> None:
    (tmp_path / "test_some.py").write_text(TESTS.format(names=names))
    done = run(tmp_path, "-n", str(workers), "--dist", "load", "test_some.py")
    assert done.returncode == status, done.stdout
    for words in said:
        assert words in done.stdout


def test_no_tests_are_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS.format(names=["good"]))
    assert run(tmp_path, "-k", "nothing", "test_some.py").returncode == 5


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the rule in a folder with tests of its own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "tests.rerun", *arguments, f"--rootdir={folder}"],
        cwd=folder,
        env={**own, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
