"""A test that fails is run once more, alone; one that hangs ends, and is not run again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rerun import judge

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
FAILS_ONCE = """
import os, pathlib, pytest

@pytest.mark.parametrize("name", ["good", "once-1", "once-2"])
def test_it(name):
    tried = pathlib.Path("tried-" + name)
    again = tried.exists()
    tried.touch()
    assert name == "good" or (again and "PYTEST_XDIST_WORKER" not in os.environ)
"""
HANGS = """
import time

def test_it():
    time.sleep(100)
"""


def test_what_passes_only_the_second_time_is_named_and_counted(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(FAILS_ONCE)
    done = run(tmp_path, "-n", "2", "--dist", "load", "test_some.py")
    assert done.returncode == 0, done.stdout
    for words in ("unstable, 2", "test_it[once-1]", "test_it[once-2]"):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("second", "unstable", "status"), [(0, 0, 0), (0, 2, 0), (0, 3, 1), (1, 1, 1)]
)
def test_three_unstable_tests_are_a_failure(second: int, unstable: int, status: int) -> None:
    assert judge(second, ["test"] * unstable) == status


def test_no_tests_are_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(FAILS_ONCE)
    assert run(tmp_path, "-k", "nothing", "test_some.py").returncode == 5


def test_a_test_that_hangs_ends_with_its_stack_and_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.limits"]')
    (tmp_path / "test_some.py").write_text(HANGS)
    done = run(tmp_path, "--each", "0.5", "test_some.py")
    assert done.returncode == 1
    assert "time.sleep(100)\nE       Failed: Timeout" in done.stdout
    assert "1 reached their time limit" in done.stdout
    assert "once more" not in done.stdout


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
