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


PUBLIC_API = """
import datetime, pathlib, wandb
from wandb.sdk.artifacts.artifact_instance_cache import artifact_instance_cache
with wandb.init(project="public") as run:
    for number in range(25):
        run.log({"a": number})
    for name, ttl in (("kept", datetime.timedelta(days=1)), ("moved", None)):
        artifact = wandb.Artifact(name, "dataset")
        artifact.ttl = ttl
        with artifact.new_file("x") as file:
            file.write(name)
        run.log_artifact(artifact).wait()
for round in range(2):  # the second makes another version
    for name in "ab":
        with wandb.init(project="public", group="ranks") as rank:
            artifact = wandb.Artifact("ours", "shards")
            with artifact.new_file(f"{name}-{round}") as file:
                file.write(name)
            save = rank.upsert_artifact if name == "a" else rank.finish_artifact
            save(artifact)
api, path = wandb.Api(), f"{run.entity}/public"
artifact_instance_cache.clear()  # else it is what this process has written
for round in range(2):
    ours = api.artifact(f"{path}/ours:v{round}")
    assert sorted(ours.manifest.entries) == [f"a-{round}", f"b-{round}"]
    assert sorted(path.name for path in pathlib.Path(ours.download()).iterdir()) == [
        f"a-{round}", f"b-{round}"
    ]
for keys in (["a", "_step"], ["a"], ["a", "_runtime", "_step"]):
    rows = api.run(f"{path}/{run.id}").scan_history(keys=keys, page_size=10)
    assert [row["a"] for row in rows] == list(range(25)), keys
kept = api.artifact(f"{path}/kept:latest")
kept.ttl = datetime.timedelta(days=2)
kept.save()
assert kept.ttl is None
api.artifact_collection("dataset", f"{path}/moved").change_type("model")
assert api.artifact(f"{path}/moved:latest").type == "model"
found = {kind.name: [one.name for one in kind.collections()] for kind in api.artifact_types(path)}
assert found == {"dataset": ["kept"], "model": ["moved"], "shards": ["ours"]}
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


@pytest.mark.slow
def test_the_public_api_loses_nothing(backend: ServedBackend, tmp_path: Path) -> None:
    environment = environment_in(backend, tmp_path)
    subprocess.run([sys.executable, "-c", PUBLIC_API], cwd=tmp_path, env=environment, check=True)


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
