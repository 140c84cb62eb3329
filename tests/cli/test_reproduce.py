"""`deployer reproduce`: the lock file of `up`, and a run that comes to the same, or does not."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.cli.conftest import Project
from tests.git import commit_all

TRAINER = """
import argparse, os
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
with wandb.init() as run:
    run.log({"loss": parser.parse_args().lr + float(os.environ.get("NOISE", "0"))})
"""
SWEEP = """
program: train.py
project: proj
method: grid
metric: {name: loss, goal: minimize}
parameters: {lr: {values: [1.0, 2.0]}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise", ["", pytest.param("0.75", marks=pytest.mark.full)], ids=["the same", "another value"]
)
def test_a_run_is_repeated_with_the_code_that_ran(project: Project, noise: str) -> None:
    project.write("train.py", TRAINER)
    project.write("sweep.yaml", SWEEP)
    commit = commit_all(project.folder)
    project.write("train.py", TRAINER.replace(".lr +", ".lr * 3 +"))
    assert "lock file: sweep.lock.yaml" in project.run("up", "sweep.yaml").stderr
    lock = yaml.safe_load((project.folder / "sweep.lock.yaml").read_text())
    assert lock["code"]["commit"] == commit
    assert '+    run.log({"loss": parser.parse_args().lr * 3' in lock["code"]["diff"]
    assert lock["surroundings"]["packages"]["wandb"]

    project.write("train.py", "raise SystemExit('another script by now')\n")
    done = project.run("reproduce", "best", "sweep.yaml", "--replicas", "2")
    assert ", again 3, 3, 3 (0 apart, 0 allowed)" in done.stdout
    assert f"code: commit {commit}, as it was" in done.stderr
    if noise:
        check_another_value(project, noise)
    project.write("sweep.lock.yaml", "mine: 1\n")
    refused = project.run("up", "sweep.yaml", "--new", code=2)
    assert "sweep.lock.yaml: there is such a file, and it is no lock file" in refused.stderr


def check_another_value(project: Project, noise: str) -> None:
    """Repeat the best run where it comes to another value."""
    # The sweep of repeats has no lock file: the newest that has one is meant.
    words = ("reproduce", "best", "--tolerance", "0.5", "-o", "json")
    failed = project.run(*words, NOISE=noise, code=3)
    found = json.loads(failed.stdout)
    assert (found["repeats"], found["distance"], found["within"]) == ([3.75], 0.75, False)
    assert "not reproduced: loss 3 of run" in failed.stderr
