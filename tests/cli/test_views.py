"""What is seen while a sweep goes on: the live view, logs as they come, and the Python API."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from deployer import api
from deployer.errors import ConfigError
from tests.cli.conftest import Project


@pytest.mark.slow
def test_live_view_on_a_terminal(project: Project) -> None:
    project.write_grid(lrs="[2.0]")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "deployer", "up", "grid.yaml"],
        cwd=project.folder,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    seen = read_all(ours)
    assert process.stdout is not None
    assert "2/2 configurations finished, 0 duplicates, 0 lost" in process.stdout.read()
    assert process.wait(20) == 0
    assert "AGENT" in seen
    assert "\x1b[" in seen
    assert "2/2 finished" in seen
    said = project.draw(300, "up", "grid.yaml", "--detach", typed="n\n")
    assert "is FINISHED: 2/2 configurations finished, 0 duplicates, 0 lost; run everything" in said
    assert len(json.loads(project.run("sweep", "list", "-o", "json").stdout)) == 1


def read_all(terminal: int) -> str:
    """Read a terminal until nobody has it open any more."""
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            part = b""
        if not part:
            os.close(terminal)
            return b"".join(parts).decode(errors="replace")
        parts.append(part)


@pytest.mark.slow
def test_the_python_api_and_logs_that_are_followed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write_grid(lrs="[2.0]")
    monkeypatch.chdir(project.folder)
    server = api.connect("embedded")
    path = api.create_sweep(server, Path("grid.yaml"))
    assert api.create_sweep(server, "grid.yaml", new=False) == path
    with pytest.raises(ConfigError, match="replicas: 0 is below 1"):
        api.plan(server, path, replicas=0)
    planned = api.plan(server, path, replicas=2)
    assert [agent.state for agent in api.apply(server, planned)] != []
    assert api.plan(server, path, replicas=2) == planned
    logs = project.start("agents", "logs", "-f", "-o", "json")
    *_, last = api.watch(server, path, timeout_seconds=120)
    assert last.over
    found = api.results(server, path)
    assert found.coverage.complete
    assert found.best is not None
    assert found.best.parameters == {"lr": 2, "layers": 1}
    assert [(row["lr"], row["layers"]) for row in found.rows()] == [(2, 1), (2, 2)]
    [first, second] = api.agents(path)
    assert [first.name, second.name] == [agent.name for agent in planned.agents]
    assert {name for name, _ in api.logs(server, path)} == {first.name, second.name}
    assert {name for name, _ in api.logs(server, path, agents=[first.name])} == {first.name}
    said = "layers is the most important of 1 parameter for loss in 2 runs"
    assert api.importance(server, path).sentence() == said
    assert api.importance(server, path, metric="_step").constants == ("lr",)
    out, _ = logs.communicate(timeout=60)
    lines = [json.loads(line) for line in out.splitlines()]
    assert {line["agent"] for line in lines} == {agent.name for agent in planned.agents}
