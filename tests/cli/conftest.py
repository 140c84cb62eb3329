"""The real command line in a project folder of its own, with a trainer that needs no torch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.forked import PATIENCE_SECONDS, run_forked
from tests.terminal import draw

TRAINER = """
import argparse, os, sys, time
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--layers", type=int, default=1)
parser.add_argument("--fail-above", type=float, default=99.0)
arguments = parser.parse_args()
run = wandb.init(config=vars(arguments))
if arguments.lr > arguments.fail_above:
    print("no learning rate for mortals", flush=True)
    run.finish(exit_code=7)
    sys.exit(7)
while os.path.exists("hold"):
    time.sleep(0.1)
for step in range(3):
    run.log({"loss": arguments.lr * arguments.layers / (step + 1)})
outputs = os.environ.get("DEPLOYER_OUTPUT_DIR")  # other executors have none
if outputs:
    with open(os.path.join(outputs, "model"), "w") as model:
        model.write(run.id)
run.finish()
"""

GRID = """
program: train.py
project: {project}
method: grid
metric: {{name: loss, goal: minimize}}
parameters:
  lr: {{values: {lrs}}}
  layers: {{values: [1, 2]}}
"""


@dataclass(frozen=True)
class Project:
    """A user's project folder; `deployer` runs the installed command in it."""

    folder: Path

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start `deployer` and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "deployer", *words],
            cwd=self.folder,
            env=self._environment(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *words: str, text: str = "", code: int | None = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `deployer` to its end and check its exit code; see `drop_waits`."""
        done = run_forked(words, self.folder, self._environment(environment), text)
        done.stderr = drop_waits(done.stderr)
        return _checked(done, code)

    def run_afresh(
        self, *words: str, code: int | None = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Do the same with a Python that is started for it, as a shell does."""
        process = self.start(*words, **environment)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return _checked(subprocess.CompletedProcess(words, process.returncode, out, err), code)

    def draw(self, columns: int, *words: str, typed: str = "", **environment: str) -> str:
        """Return what `deployer` draws in a terminal of so many columns in which this is typed."""
        command = [sys.executable, "-m", "deployer", *words]
        return draw(command, columns, self.folder, self._environment(environment), typed)

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, "WANDB_ERROR_REPORTING": "false", **more}

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.folder / name
        path.write_text(text)
        return path

    def write_grid(self, name: str = "grid.yaml", lrs: str = "[1.0, 2.0]", **more: str) -> Path:
        """Write a sweep with two runs for each learning rate."""
        return self.write(name, GRID.format(project="proj", lrs=lrs) + more.get("text", ""))


def drop_waits(said: str) -> str:
    """Leave out what a command waits for: on a loaded machine it says so at any place."""
    lines = said.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("waiting for "))


def _checked(
    done: subprocess.CompletedProcess[str], code: int | None
) -> subprocess.CompletedProcess[str]:
    if code is not None:
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Give a project folder with a trainer; whatever it started ends with the test."""
    folder = tmp_path / "project"
    folder.mkdir()
    found = Project(folder)
    found.write("train.py", TRAINER)
    yield found
    if Path(os.environ["DEPLOYER_HOME"]).exists():
        found.run("down", "--all", code=None)
