"""Artifacts, tables, media, code and files by the unmodified SDK: what it wrote it reads back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ServedBackend, serve_backend
from tests.stock import stock_environment

SCRIPT = Path(__file__).with_name("artifact_script.py")

EXPECTED = {
    "logged": ["v0", 4, ["best", "latest"]],
    "downloaded": {
        "a.txt": b"alpha".hex(),
        "far.csv": b"x,y\n1,2\n".hex(),
        "inner/b.bin": bytes(range(10)).hex(),
    },
    "equal": True,
    "table": [[1, "a"], [2, "ü"]],
    "model": True,
    "same": ["v1", ["again", "first", "latest"]],
    "draft": ["far.csv", "inner/b.bin", "table.table.json", "weights.pt"],
    "pointed": "alpha",
    "runs": ["maker", "user"],
    "described": ["D", {"k": [1, 2]}, ["best"]],
    "files": ["a.txt", "far.csv", "inner/b.bin", "table.table.json"],
    "entry": "alpha",
    "types": ["code", "dataset", "model", "run_table"],
    "collections": ["pointer", "ds"],
    "versions": ["ds:v2", "ds:v1", "ds:v0"],
    "made": ["code", "dataset", "model", "run_table"],
    "used": ["ds:v0", "net:v0"],
    "run_files": [
        "code/artifact_script.py",
        "config.yaml",
        "data/a.txt",
        "inner/b.bin",
        "late.txt",
        "output.log",
        "requirements.txt",
        "wandb-metadata.json",
        "wandb-summary.json",
    ],
    "media": ["audio", "html", "table"],
    "late": "late",
    "left": False,
    "changed": ["v0", ["good"], False],
    "after": ["ds:v2", "ds:v0"],
    "renamed": ["C", ["t"]],
    "deleted": False,
}


MANY_FILES = """
import os, pathlib, wandb
folder = pathlib.Path("many")
folder.mkdir()
for number in range(400):
    (folder / str(number)).write_bytes(os.urandom(20_000))
with wandb.init(project="killed") as run:
    artifact = wandb.Artifact("many", type="dataset")
    artifact.add_dir("many")
    run.log_artifact(artifact).wait()
    got = pathlib.Path(artifact.download())
    for path in folder.iterdir():
        assert path.read_bytes() == (got / path.name).read_bytes()
    assert (artifact.version, artifact.file_count) == ("v0", 400)
"""


def environment_in(backend: ServedBackend, folder: Path) -> dict[str, str]:
    """Return an environment with caches of its own, which tries again after a few seconds."""
    return {
        **stock_environment(backend),
        "WANDB_CACHE_DIR": str(folder / "cache"),
        "WANDB_DATA_DIR": str(folder / "data-dir"),
        "WANDB_X_FILE_TRANSFER_RETRY_WAIT_MAX_SECONDS": "3",
        "WANDB_X_GRAPHQL_RETRY_WAIT_MAX_SECONDS": "3",
    }


def run_script(backend: ServedBackend, folder: Path, python: str = sys.executable) -> Any:
    """Run the user's script in an empty folder and return what it found."""
    folder.mkdir()
    script = shutil.copy(SCRIPT, folder)
    done = subprocess.run(
        [python, script],
        cwd=folder,
        env=environment_in(backend, folder),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "found.json").read_text())


@pytest.mark.slow
def test_everything_reads_back_as_it_was_logged(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    served = serve_backend(tmp_path_factory.mktemp("artifacts") / "data")
    try:
        found = run_script(served, tmp_path / "work")
    finally:
        served.process.terminate()
        served.process.wait(20)
    assert "this server has no registry" in found.pop("refused")
    assert found == EXPECTED


@pytest.mark.full
def test_an_artifact_is_whole_though_the_server_is_killed_again_and_again(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    data = tmp_path_factory.mktemp("killed") / "data"
    served = serve_backend(data)
    script = subprocess.Popen(
        [sys.executable, "-c", MANY_FILES], cwd=tmp_path, env=environment_in(served, tmp_path)
    )
    try:
        for goal in (80, 180, 280):
            wait_until_files(data / "files", goal, script)
            served.process.kill()
            served.process.wait()
            served = serve_backend(data)
        assert script.wait(200) == 0
        assert os.listdir(data / "incoming") == []
    finally:
        script.kill()
        served.process.terminate()
        served.process.wait(20)


def wait_until_files(folder: Path, goal: int, script: subprocess.Popen[bytes]) -> None:
    """Wait until so many files have come."""
    deadline = time.monotonic() + 120
    while len(os.listdir(folder)) < goal:
        assert script.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
