"""`--one-run-per-job`: an agent for each run, which leaves after it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from deployer.__main__ import run as run_command
from deployer.agent.settings import COUNT_VARIABLE
from deployer.cli.plan import leave_out_archives
from tests.cli.conftest import Project
from tests.cli.test_recovery import kill_with_children, read, wait_for


def agents_of(project: Project) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(project, "agents", "list")
    return found


@pytest.mark.slow
def test_each_agent_takes_one_run_and_a_killed_one_is_followed_by_its_name(
    project: Project,
) -> None:
    project.write_grid(lrs="[1.0]")
    hold = project.write("hold", "runs go on when this file is gone")
    project.run("sweep", "create", "grid.yaml")
    up = project.start("up", "grid.yaml", "--one-run-per-job", "--replicas", "1", "--plain")
    wait_for(lambda: [a for a in agents_of(project) if a["run_id"]])
    victim = next(a for a in agents_of(project) if a["run_id"])
    kill_with_children(victim["process_id"])
    wait_for(lambda: [a for a in agents_of(project) if a["name"] == victim["name"] and a["run_id"]])
    hold.unlink()
    out, err = up.communicate(timeout=120)
    assert up.returncode == 0, out + err
    assert "2/2 configurations finished, 0 duplicates, 0 lost, 1 healed" in out
    assert f"started again: {victim['name']}" in err
    ended = agents_of(project)
    assert sorted(a["name"].rpartition("-")[2] for a in ended) == ["a1", "a2"]
    assert {(a["exit_code"], a["reason"]) for a in ended} == {(0, "it has taken its last run")}


@pytest.mark.slow
def test_a_watcher_starts_the_runs_that_a_detached_start_leaves(project: Project) -> None:
    project.write_grid(lrs="[1.0]")
    hold = project.write("hold", "runs go on when this file is gone")
    words = ("up", "grid.yaml", "--one-run-per-job", "--replicas", "1", "--detach")
    said = project.run(*words).stderr
    assert "one run each; a watcher starts the other 1: deployer watch " in said
    hold.unlink()
    watched = project.run("watch", "--plain")
    assert "2/2 configurations finished, 0 duplicates, 0 lost" in watched.stdout


@pytest.mark.slow
def test_plan_has_a_job_for_each_run(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project.folder)
    project.write_grid()
    project.write("deployer.yaml", "kubernetes: {image: 'trainer:1'}\n")
    words = ["plan", "grid.yaml", "--on", "kubernetes", "--one-run-per-job", "--no-check"]
    assert run_command(words) == 0
    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    jobs = [one for one in documents if one["kind"] == "Job"]
    assert len(jobs) == 4
    [container] = jobs[0]["spec"]["template"]["spec"]["containers"]
    assert {"name": COUNT_VARIABLE, "value": "1"} in container["env"]
    assert "kB; whole in a pipe or a file)" in str([leave_out_archives(one) for one in documents])
    assert run_command(["plan", "grid.yaml", "--one-run-per-job", "-o", "json"]) == 0
    [local] = json.loads(capsys.readouterr().out)
    assert len(local["agents"]) == 1
    for server, asked in (("http://localhost:1", False), ("https://api.wandb.ai", True)):
        assert run_command([*words, "--wandb", server]) == 0
        assert (f"{server} is not contacted; if it is" in capsys.readouterr().err) is not asked
