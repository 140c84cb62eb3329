"""W&B's own names: the unmodified `wandb` command line and ours, on a stand-in for the cloud."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Project
from tests.contract.sdks import python_with
from tests.outside.cloud import Network, serve_network
from tests.outside.recording import list_kept

pytestmark = pytest.mark.slow

NEWEST = list_kept()[-1]
VERSIONS = [
    pytest.param(one, marks=[] if one == NEWEST else [pytest.mark.full]) for one in list_kept()
]
SWEEP = """
program: train.py
method: grid
metric: {name: loss, goal: minimize}
parameters: {lr: {values: [0.1, 0.2, 0.3, 0.4]}}
"""
SCRIPT = """
import argparse, os, wandb
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
lr = parser.parse_args().lr
with wandb.init() as run:
    run.log({"loss": lr, "table": wandb.Table(columns=["x"], data=[[lr]])})
    with open("urls", "a") as file:
        print(wandb.__version__, os.environ.get("WANDB_BASE_URL"), run.url, file=file)
"""


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    with serve_network(tmp_path) as served:
        for name, value in served.environment.items():
            monkeypatch.setenv(name, value)
        yield served


@pytest.fixture
def project(tmp_path: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "sweep.yaml").write_text(SWEEP)
    return Project(folder)


def run_wandb(python: Path, folder: Path, *words: str) -> str:
    """Run the command line of an SDK, which must succeed; return what it said."""
    done = subprocess.run(
        [str(python.with_name("wandb")), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_after_wandb_login_everything_is_in_the_cloud(
    cloud: Network, project: Project, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = Path(sys.executable) if version == NEWEST else python_with(version)
    if version != NEWEST:  # parts of it ask by requests, which have a variable of their own
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(cloud.ca))
    run_wandb(python, project.folder, "login", cloud.backend.key)
    monkeypatch.setenv("VIRTUAL_ENV", str(python.parents[1]))
    monkeypatch.setenv("PATH", f"{python.parent}:/usr/bin:/bin")
    done = project.run("up", "sweep.yaml", "--replicas", "2", "--plain")
    said = done.stdout + done.stderr
    assert "4/4 configurations finished, 0 duplicates, 0 lost" in said
    path = re.search(r"https://forge\.coreweave\.com/wandb/(tester/\S+?)/sweeps/(\w+)", said)
    assert path, said
    entity_project, sweep_id = path.groups()
    # There, and nowhere else.
    assert not (tmp_path / "home" / "deployer" / "backend").exists()
    assert len({*cloud.led}) <= 2
    urls = [line.split() for line in (project.folder / "urls").read_text().splitlines()]
    old, new = "https://api.wandb.ai", "https://api.forge.coreweave.com"
    named = old if version != NEWEST else new
    pages = "https://wandb.ai/" if version != NEWEST else "https://forge.coreweave.com/wandb/"
    assert {(one[0], one[1]) for one in urls} == {(version, named)}
    assert all(one[2].startswith(pages) for one in urls)
    # Under the other names of the cloud it is the same sweep, which does not run again.
    again = project.run("up", "sweep.yaml", "--plain", code=2, WANDB_BASE_URL=old)
    assert "is FINISHED: 4/4 configurations finished" in again.stderr
    for page in (
        f"https://wandb.ai/{entity_project}/sweeps/{sweep_id}",
        f"https://forge.coreweave.com/wandb/{entity_project}/sweeps/{sweep_id}?nw=1",
    ):
        found = json.loads(project.run("results", page, "-o", "json").stdout)
        assert found["coverage"]["finished"] == 4


def test_the_missions_path_step_by_step(cloud: Network, project: Project) -> None:
    python = Path(sys.executable)
    run_wandb(python, project.folder, "login", cloud.backend.key)
    path = project.run("sweep", "create", "sweep.yaml").stdout.strip()
    assert path.startswith("tester/")
    project.run("agents", "up", "--replicas", "4")
    project.run("watch", "--plain")
    found = json.loads(project.run("results", "-o", "json").stdout)
    assert found["coverage"]["finished"] == 4
    healed = project.run("heal")
    assert "nothing" in healed.stdout + healed.stderr
    project.run("down")
    assert json.loads(project.run("agents", "list", "-o", "json").stdout) == []


def test_a_sweep_of_the_stock_tools_is_found_by_its_page(cloud: Network, project: Project) -> None:
    python = Path(sys.executable)
    run_wandb(python, project.folder, "login", cloud.backend.key)
    said = run_wandb(python, project.folder, "sweep", "--project", "stock", "sweep.yaml")
    page = re.search(r"View sweep at: \S*?(https://\S+/sweeps/\w+)", said)
    command = re.search(r"wandb agent (\S+/\S+/\w+)", said)
    assert page, said
    assert command, said
    run_wandb(python, project.folder, "agent", "--count", "2", command[1])
    found = json.loads(project.run("results", page[1], "-o", "json").stdout)
    assert found["coverage"]["finished"] == 2
