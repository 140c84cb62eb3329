"""Agents that leave after a time, watched or not; what they leave is handed out again."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Project
from tests.cli.test_recovery import read, wait_for

TIME = "20s"


@pytest.mark.slow
def test_agents_leave_when_their_time_is_over(project: Project) -> None:
    project.write_grid(lrs="[1.0]")
    hold = project.write("hold", "runs go on when this file is gone")
    up = project.start("up", "grid.yaml", "--replicas", "2", "--plain", "--max-time", TIME)
    _, err = up.communicate(timeout=120)
    assert up.returncode == 3
    assert "its time is over (--max-time): 0/2 configurations finished" in err
    assert "hint: deployer agents up" in err
    assert "agents leave in" in err
    assert "started" not in err
    ended = [(a["exit_code"], a["reason"]) for a in read(project, "agents", "list")]
    assert ended == [(0, "its time is over (--max-time)")] * 2

    hold.unlink()
    project.run("agents", "up", "--replicas", "2")
    done = project.run("watch", "--plain", "-o", "json")
    coverage = json.loads(done.stdout)["coverage"]
    assert coverage["sentence"] == "2/2 configurations finished, 0 duplicates, 0 lost, 2 healed"


@pytest.mark.slow
def test_nobody_has_to_watch(project: Project) -> None:
    project.write_grid()
    project.write("hold", "runs never end")
    project.run("up", "grid.yaml", "--detach", "--max-time", TIME)
    wait_for(lambda: [a["state"] for a in read(project, "agents", "list")] == ["ended"])
    project.run("down")
