"""The real command line in a project folder of its own, with a trainer that needs no torch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

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
            env={**os.environ, "WANDB_ERROR_REPORTING": "false", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *words: str, text: str = "", code: int | None = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `deployer` to its end and check its exit code."""
        process = self.start(*words, **environment)
        out, err = process.communicate(text, timeout=180)
        if code is not None:
            assert process.returncode == code, f"exit {process.returncode}\n{out}\n{err}"
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.folder / name
        path.write_text(text)
        return path

    def write_grid(self, name: str = "grid.yaml", lrs: str = "[1.0, 2.0]", **more: str) -> Path:
        """Write a sweep with two runs for each learning rate."""
        return self.write(name, GRID.format(project="proj", lrs=lrs) + more.get("text", ""))


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
