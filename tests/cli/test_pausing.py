"""A sweep that is paused: its agents wait, or are ended, and others go on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Project
from tests.cli.test_recovery import read, wait_for


def busy(project: Project) -> list[dict[str, Any]]:
    return [agent for agent in read(project, "agents", "list") if agent["run_id"]]


@pytest.mark.slow
def test_ended_agents_leave_their_runs_to_those_that_go_on(project: Project) -> None:
    project.write_grid(lrs="[1.0]")
    hold = project.write("hold", "runs go on when this file is gone")
    path = project.run("sweep", "create", "grid.yaml").stdout.strip()
    up = project.start("up", "grid.yaml", "--replicas", "2", "--plain")
    wait_for(lambda: len(busy(project)) == 2)

    said = project.run("sweep", "pause").stderr
    assert "2 agents end their run, then wait and hold their GPUs" in said
    assert f"deployer agents down {path}\n" in said
    assert "2 agents ended" in project.run("agents", "down").stderr
    _, err = up.communicate(timeout=60)
    assert up.returncode == 3
    assert f"{path} is PAUSED and has no agents" in err
    assert "started" not in err
    assert read(project, "agents", "list") == []

    project.run("sweep", "resume")
    hold.unlink()
    project.run("agents", "up", "--replicas", "2")
    done = project.run("watch", "--plain", "-o", "json")
    sentence = json.loads(done.stdout)["coverage"]["sentence"]
    assert sentence == "2/2 configurations finished, 0 duplicates, 0 lost, 2 healed"

    again = project.run("agents", "up", "--replicas", "2")
    assert f"{path} is FINISHED: started no agent" in again.stderr
    assert not [a for a in read(project, "agents", "list") if a["state"] != "ended"]
