"""The README is true: every command and program in it runs, in its order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SHELL_BLOCKS = [
    block for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if "make " not in block
]
PYTHON_BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def run(command: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    """Run a block in the project's folder, with its tools on PATH and a home of its own."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PATH": path, "WANDB_DIR": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SHELL_BLOCKS)))
def test_shell_commands(number: int, home: Path) -> None:
    done = run(["bash", "-euo", "pipefail", "-c", SHELL_BLOCKS[number]], home)
    run(["deployer", "down", "--all"], home)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PYTHON_BLOCKS)))
def test_python_programs(number: int, home: Path) -> None:
    done = run([sys.executable, "-c", PYTHON_BLOCKS[number]], home)
    run(["deployer", "down", "--all"], home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Row(rank=1" in done.stdout


def test_the_readme_has_what_it_promises() -> None:
    assert len(SHELL_BLOCKS) == 3
    assert len(PYTHON_BLOCKS) == 1
    assert len(README.splitlines()) <= 100
