"""The README and the guide to sweeps are true: every command and program in them runs, in order."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TEXT = README + (ROOT / "docs" / "sweeps.md").read_text()
SHELL_BLOCKS = [
    block for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) if "make " not in block
]
PYTHON_BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


short = pytest.mark.parametrize(
    "is_short", [True, pytest.param(False, marks=pytest.mark.full)], ids=["two runs", "every run"]
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy the folders that the README uses."""
    for name in ("examples", "sweeps", "trainer"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def shorten(project: Path) -> None:
    """Leave one value of each parameter but for two learning rates."""
    for file in (
        project / "sweeps" / "digits.yaml",
        project / "examples" / "digits" / "sweep.yaml",
    ):
        sweep = yaml.safe_load(file.read_text())
        for key, most in (("optimizer", 1), ("learning_rate", 2), ("batch_size", 1)):
            del sweep["parameters"][key]["values"][most:]
        file.write_text(yaml.safe_dump(sweep))


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a block in a project folder, with the project's tools on PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "WANDB_DIR": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@short
@pytest.mark.slow(seconds=60)
@pytest.mark.limit(600)
@pytest.mark.parametrize(
    "number",
    [0, *(pytest.param(one, marks=pytest.mark.full) for one in range(1, len(SHELL_BLOCKS)))],
)
def test_shell_commands(number: int, project: Path, is_short: bool) -> None:
    # A sweep that is cancelled must not have come to its end before.
    if is_short and "sweep cancel" not in SHELL_BLOCKS[number]:
        shorten(project)
    block = SHELL_BLOCKS[number]
    done = run(["bash", "-euo", "pipefail", "-c", block], project)
    folder = project / "examples" / "digits" if "cd examples" in block else project
    ranked = run(["deployer", "results", "-o", "json"], folder)
    run(["deployer", "down", "--all"], project)
    assert done.returncode == 0, done.stdout + done.stderr
    if "results get" in block:
        check = check_best_model if folder == project else check_pickled_model
        check(folder, json.loads(ranked.stdout)["best"]["value"])


def check_best_model(project: Path, logged: float) -> None:
    """Compare the model that was copied with what its run has logged."""
    [model] = (project / "results").rglob("best.pt")
    metrics = json.loads(model.with_name("metrics.json").read_text())
    assert metrics["last"]["val_accuracy"] == logged
    command = [sys.executable, "-m", "tests.cli.digits_accuracy", str(model)]
    found = float(run(command, ROOT).stdout)
    assert found == pytest.approx(metrics["best"]["test_accuracy"], abs=1 / 360)


def check_pickled_model(folder: Path, logged: float) -> None:
    """Check that the model that was copied has the accuracy that its run logged."""
    [path] = folder.glob("results/*/*/model.pkl")
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16, labels, test_size=0.2, random_state=0, stratify=labels)
    assert pickle.loads(path.read_bytes()).score(split[1], split[3]) == pytest.approx(logged)


@pytest.mark.full
@short
@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PYTHON_BLOCKS)))
def test_python_programs(number: int, project: Path, is_short: bool) -> None:
    if is_short:
        shorten(project)
    done = run([sys.executable, "-c", PYTHON_BLOCKS[number]], project)
    run(["deployer", "down", "--all"], project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("Row(rank=1" in done.stdout) == ("results" in PYTHON_BLOCKS[number])


def test_the_readme_has_what_it_promises() -> None:
    assert len(SHELL_BLOCKS) == 3
    assert len(PYTHON_BLOCKS) == 3
    assert len(README.splitlines()) <= 95
