"""A large artifact by the unmodified SDK, while the server dies (the rest: tests/contract)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ServedBackend, serve_backend
from tests.stock import stock_environment

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
            served.kill()
            served = serve_backend(data)
        assert script.wait(200) == 0
        assert os.listdir(data / "incoming") == []
    finally:
        script.kill()
        served.end()


def wait_until_files(folder: Path, goal: int, script: subprocess.Popen[bytes]) -> None:
    """Wait until so many files have come."""
    deadline = time.monotonic() + 120
    while len(os.listdir(folder)) < goal:
        assert script.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
