"""A sweep that its script does not take is refused before anything is made."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Project

WRONG = [
    "error: grid.yaml:7: parameters.lr: train.py:6: argument --lr: invalid float value: 'big'",
    "hint: write numbers as its values",
    "error: grid.yaml:8: parameters.layrs: train.py: unrecognized arguments: --layrs=1",
    "hint: did you mean --layers? (train.py:7)",
]


def write_wrong(project: Project) -> None:
    path = project.write_grid(lrs="[1.0, big]")
    path.write_text(path.read_text().replace("layers:", "layrs:"))


def test_what_the_script_refuses_is_refused_before_anything_is_made(project: Project) -> None:
    write_wrong(project)
    for words in (["plan"], ["sweep", "create"]):
        assert project.run(*words, "grid.yaml", code=2).stderr.splitlines() == WRONG
    assert not Path(os.environ["DEPLOYER_HOME"]).exists()
    (said,) = project.run("plan", "grid.yaml", "--no-check").stderr.splitlines()
    assert said.startswith("Python of the runs: ")


def test_up_refuses_and_doctor_says_the_same(project: Project) -> None:
    write_wrong(project)
    assert project.run("up", "grid.yaml", code=2).stderr.splitlines()[-4:] == WRONG
    assert json.loads(project.run("sweep", "list", "-o", "json").stdout) == []
    said = json.loads(project.run("doctor", "grid.yaml", "-o", "json", code=1).stdout)
    found = [one for one in said["findings"] if one["code"] == "script"]
    assert [f"error: {one['sentence']}" for one in found] == WRONG[::2]
    assert [one["verdict"] for one in found] == ["wrong", "wrong"]


RAISING = """
import os
import wandb
if os.environ["WANDB_MODE"] == "disabled":  # of the trial start alone
    raise KeyError("DATA")
wandb.init().log({"loss": 1})
"""
SAID = "warning: grid.yaml:2: program: train.py:5: KeyError: DATA"
ASKED = "grid.yaml: its script failed during the check"


@pytest.mark.slow(seconds=15)
def test_up_asks_on_a_terminal_whether_it_goes_on_after_an_error(project: Project) -> None:
    project.write_grid(lrs="[1.0]")
    project.write("train.py", RAISING)
    said, *_ = project.run("plan", "grid.yaml").stderr.splitlines()
    assert said.startswith(SAID)
    project.run("backend", "up")
    drawn = project.draw(200, "up", "grid.yaml", typed="n\n")
    assert SAID in drawn
    assert f"{ASKED}; start anyway? [y/N]" in drawn
    assert f"error: {ASKED}" in drawn
    assert json.loads(project.run("sweep", "list", "-o", "json").stdout) == []
    done = project.run("up", "grid.yaml", "--plain")
    assert SAID in done.stderr
    assert "2/2 configurations finished" in done.stdout


def test_plan_refuses_a_script_that_the_archive_of_pods_would_lack(project: Project) -> None:
    project.write_grid()
    folder = project.folder / "sweeps"
    folder.mkdir()
    text = (project.folder / "grid.yaml").read_text().replace("train.py", "../train.py")
    (folder / "grid.yaml").write_text(text)
    (folder / "deployer.yaml").write_text("kubernetes: {image: trainer, code: archive}\n")
    inside = Project(folder)
    said = inside.run("plan", "grid.yaml", "--on", "kubernetes", code=2).stderr.splitlines()
    assert said[-2:] == [
        f"error: grid.yaml: program: ../train.py is outside {folder}, and pods get only that "
        "folder",
        f"hint: cd {project.folder}, write train.py, and name the sweep file from there",
    ]
    assert inside.run("plan", "grid.yaml").stdout
