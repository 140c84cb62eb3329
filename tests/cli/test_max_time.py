"""Agents that leave after a time, unwatched; what they leave is handed out again."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Project
from tests.cli.test_recovery import read, wait_for

TIME = "15s"  # a busy machine takes ten until a run begins


@pytest.mark.slow
def test_an_agent_leaves_unwatched_when_its_time_is_over(project: Project) -> None:
    project.write_grid(lrs="[1.0]")
    hold = project.write("hold", "runs go on when this file is gone")
    project.run("up", "grid.yaml", "--replicas", "1", "--detach", "--max-time", TIME)
    wait_for(lambda: [a["state"] for a in read(project, "agents", "list")] == ["ended"])
    [agent] = read(project, "agents", "list")
    assert (agent["exit_code"], agent["reason"]) == (0, "its time is over (--max-time)")
    said = project.run("watch", "--plain", code=3).stderr
    assert "--max-time has passed: 0/2 configurations finished" in said
    assert "hint: deployer agents up" in said
    assert "started" not in said

    hold.unlink()
    project.run("agents", "up", "--replicas", "1")
    done = project.run("watch", "--plain", "-o", "json")
    coverage = json.loads(done.stdout)["coverage"]
    assert coverage["sentence"] == "2/2 configurations finished, 0 duplicates, 0 lost, 1 healed"
