"""A sweep that is paused: its agents wait, or are released and come back as many as they were."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from deployer.executors.local.executor import LocalExecutor
from tests.cli.conftest import Project
from tests.cli.test_recovery import read, wait_for


def busy(project: Project) -> list[dict[str, Any]]:
    return [agent for agent in read(project, "agents", "list") if agent["run_id"]]


@pytest.mark.slow
def test_released_agents_leave_and_as_many_go_on(project: Project) -> None:
    project.write_grid(lrs="[1.0]")
    hold = project.write("hold", "runs go on when this file is gone")
    path = project.run("sweep", "create", "grid.yaml").stdout.strip()
    up = project.start("up", "grid.yaml", "--replicas", "2", "--plain")
    wait_for(lambda: len(busy(project)) == 2)

    said = project.run("sweep", "pause").stderr
    assert "2 agents end their run, then wait and hold their GPUs" in said
    assert f"deployer sweep pause {path} --release" in said
    said = project.run("sweep", "pause", "--release").stderr
    assert "2 agents released, their runs go on when they are handed out again" in said
    assert f": deployer sweep resume {path}, then deployer agents up {path}\n" in said
    _, err = up.communicate(timeout=60)
    assert up.returncode == 3
    assert f"{path} is PAUSED and has no agents" in err
    assert "started" not in err
    assert [agent["exit_code"] for agent in read(project, "agents", "list")] == [143, 143]
    assert all(agent.dismissed for agent in LocalExecutor(os.environ).list_agents())

    said = project.run("sweep", "resume").stderr
    assert f"2 agents were released: deployer agents up {path}" in said
    hold.unlink()
    assert len(json.loads(project.run("agents", "up", "-o", "json").stdout)) == 2
    done = project.run("watch", "--plain", "-o", "json")
    sentence = json.loads(done.stdout)["coverage"]["sentence"]
    assert sentence == "2/2 configurations finished, 0 duplicates, 0 lost, 2 healed"

    again = project.run("agents", "up", "--replicas", "2")
    assert f"{path} is FINISHED: no agent is started" in again.stderr
    assert not [a for a in read(project, "agents", "list") if a["state"] != "ended"]
