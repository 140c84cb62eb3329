"""`up --probe`: one run is looked at before the rest is started."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Project
from tests.cli.test_recovery import read, wait_for

RAISES = """
import wandb
wandb.init()
raise ValueError("no learning rate for mortals")
"""


@pytest.mark.slow
def test_the_rest_waits_for_a_word_and_the_probe_counts_once(project: Project) -> None:
    project.write_grid()
    words = ("grid.yaml", "--replicas", "2", "-o", "json")
    first = project.run("up", "--probe", "--new", *words, code=4)
    report = json.loads(first.stdout)
    assert (report["verdict"], report["metric"], report["logged"]) == ("good", "loss", ["loss"])
    assert report["rest"]["runs"] == 3
    assert report["rest"]["agents"] == 2
    assert report["run_seconds"] > 0
    assert report["memory"]["memory"] > 1_000_000
    error = json.loads(first.stderr.splitlines()[-1])["error"]
    assert (error["code"], error["hint"]) == ("rest-waits", f"deployer up {' '.join(words)}")
    wait_for(lambda: read(project, "agents", "list")[0]["state"] == "ended")
    [agent] = read(project, "agents", "list")
    assert (agent["exit_code"], agent["reason"]) == (0, "it has taken its last run")
    second = json.loads(project.run("up", *words).stdout)
    sentence = second["coverage"]["sentence"]
    assert sentence == "4/4 configurations finished, 0 duplicates, 0 lost"
    [sweep] = read(project, "sweep", "list")
    assert sweep["state"] == "FINISHED"


@pytest.mark.full
@pytest.mark.slow
def test_nothing_follows_a_probe_that_failed(project: Project) -> None:
    project.write("train.py", RAISES)
    project.write_grid()
    ended = project.run("up", "grid.yaml", "--probe", "--yes", "--no-check", code=3)
    *_, error, hint = ended.stderr.splitlines()
    assert error.endswith("has failed (crashed: exit code 1), and nothing more is started")
    assert hint == "hint: fix it, then: deployer up grid.yaml --probe --yes --no-check"
    assert "ValueError: no learning rate for mortals" in ended.stderr
    [row] = read(project, "results")["runs"]
    assert len(row["attempts"]) == 1
    assert [agent["state"] for agent in read(project, "agents", "list")] == ["ended"]


def test_a_probe_is_somebodys_to_see(project: Project) -> None:
    project.write_grid()
    refused = project.run("up", "grid.yaml", "--probe", "--detach", code=2)
    assert "--probe: does not go together with --detach" in refused.stderr
