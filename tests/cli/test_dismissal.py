"""Agents that were told to leave stay away, whoever watches, and no dead one comes twice."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from deployer.config import paths
from deployer.model import Wanted
from deployer.watch.status import POLL_SECONDS
from tests.cli.conftest import Project
from tests.cli.test_recovery import kill_with_children, read, wait_for
from tests.project_files import open_local


@pytest.mark.full
def test_no_watcher_starts_an_agent_again_that_was_told_to_leave(project: Project) -> None:
    """`agents up` with fewer, `scale`, `drain`, `cancel` and `heal`, watched before and after."""
    project.write_grid()
    hold = project.write("hold", "runs go on when this file is gone")

    def list_agents(*states: str) -> dict[str, Any]:
        agents = read(project, "agents", "list")
        return {a["name"][-2:]: a for a in agents if a["state"] in states}

    def wait_for_busy(count: int) -> None:
        wait_for(lambda: sum(bool(a["run_id"]) for a in read(project, "agents", "list")) == count)

    project.run("up", "grid.yaml", "--replicas", "4", "--detach")
    wait_for_busy(4)
    watchers = [project.start("watch", "--plain")]
    said = project.run("agents", "up", "--replicas", "3").stderr
    assert ": 3 agents asked for" in said
    project.run("agents", "scale", "2")
    assert len(list_agents("running")) == 2
    staying = sorted(list_agents("running"))
    drained = list_agents("running")[staying[0]]["name"]
    project.run("agents", "drain", "--agent", drained)
    project.run("sweep", "cancel")
    _, err = watchers.pop().communicate(timeout=120)
    assert "started" not in err
    assert not list_agents("running", "draining", "starting")

    ends = {name: agent["reason"] for name, agent in list_agents("ended").items()}
    assert {"a3", "a4"} <= {name for name, reason in ends.items() if "drained" in reason}

    # Nobody wants agents any more: a watcher starts none and says which command does.
    healed = project.run("heal").stderr
    assert "4 configurations to run again" in healed
    assert "1 agent started or running" in healed
    project.run("agents", "down")
    err = project.run("watch", "--plain", code=3).stderr
    assert "started" not in err
    assert "hint: deployer agents up" in err

    project.run("agents", "up", "--replicas", "2")
    wait_for_busy(2)
    watchers = [project.start("watch", "--plain") for _ in range(2)]
    for watcher in watchers:
        assert watcher.stderr
        wait_for(lambda err=watcher.stderr: "2 running" in err.readline())
    dead = list_agents("running")["a2"]
    kill_with_children(dead["process_id"])
    wait_for(lambda: list_agents("running").get("a2", dead)["process_id"] != dead["process_id"])
    wait_for_busy(2)
    hold.unlink()
    said = [watcher.communicate(timeout=120)[1] for watcher in watchers]
    assert [watcher.returncode for watcher in watchers] == [0, 0]
    lines = [line for err in said for line in err.splitlines() if line.startswith("started")]
    assert [line[-2:] for line in lines] == ["a2"], said


@pytest.mark.slow
def test_a_watcher_tells_those_whom_a_killed_command_has_not_told(project: Project) -> None:
    """`drain` was killed once it had named who leaves; later, nobody can read how many stay."""
    project.write_grid()
    project.write("hold", "runs go on when this file is gone")
    path = project.run("sweep", "create", "grid.yaml").stdout.strip()
    project.run("agents", "up", path, "--replicas", "2")
    executor, (first, second) = open_local(os.environ), read(project, "agents", "list")
    wait_for(lambda: all(a["run_id"] for a in read(project, "agents", "list")))
    executor.wanted.change(path, lambda old: old and old.without([first["name"]]))
    assert executor.wanted.get(path) == Wanted(1, frozenset({first["name"]}))
    watcher = project.start("watch", "--plain")
    wait_for(lambda: read(project, "agents", "list")[0]["state"] == "draining")
    assert read(project, "agents", "list")[1]["state"] == "running"

    [file] = paths.agents_folder().glob("*.wanted")
    file.write_text("nonsense")
    kill_with_children(second["process_id"])
    assert watcher.stderr
    lines = iter(watcher.stderr.readline, "")
    told = next(line for line in lines if "no agent" in line)
    assert told.startswith(
        f"no agent was started or ended: {file} does not contain a number of agents"
    )
    time.sleep(2 * POLL_SECONDS)
    watcher.send_signal(signal.SIGINT)
    assert "started" not in watcher.communicate(timeout=60)[1]
    assert [a["state"] for a in read(project, "agents", "list")] == ["draining", "lost"]
