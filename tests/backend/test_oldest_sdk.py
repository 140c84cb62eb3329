"""The oldest SDK that pyproject.toml allows, as a smoke: its agent runs a grid to the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backend.client import Client, grid
from tests.conftest import ServedBackend
from tests.stock import stock_environment, write_project

OLDEST = "0.24.0"


@pytest.fixture(scope="module")
def old_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the oldest SDK into an environment of its own; needs the package index."""
    folder = tmp_path_factory.mktemp("oldest")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", f"wandb=={OLDEST}"]
    subprocess.run(install, check=True, timeout=300)
    return python


@pytest.mark.slow
def test_a_grid_by_the_oldest_agent(
    backend: ServedBackend, tmp_path: Path, old_python: Path
) -> None:
    client = Client.of(backend, "oldest")
    config = grid(lr=[0.1, 0.2])
    sweep = client.create_sweep(config)
    write_project(tmp_path / "p", config)
    path = f"{old_python.parent}{os.pathsep}{os.environ['PATH']}"
    agent = subprocess.run(
        [old_python, "-m", "wandb", "agent", f"{client.entity}/oldest/{sweep}"],
        cwd=tmp_path / "p",
        env={**stock_environment(backend), "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert agent.returncode == 0, agent.stderr
    found = client.sweep(sweep)
    assert found["state"] == "FINISHED"
    runs = [client.run(edge["node"]["name"]) for edge in found["runs"]["edges"]]
    assert [(run["state"], run["historyLineCount"]) for run in runs] == [("finished", 3)] * 2
    assert OLDEST in runs[0]["config"]
