"""A sweep with runs that have kept something, made without a trainer; `results get` in a folder."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deployer.__main__ import run as run_command
from deployer.config.paths import outputs_folder
from tests.backend.artifact_client import ArtifactClient
from tests.backend.client import Client, grid
from tests.conftest import ServedBackend


@dataclass(frozen=True)
class Kept:
    """A grid sweep; `runs` are the ids of its runs, the best one first."""

    client: Client
    sweep_id: str
    runs: tuple[str, ...]
    folder: Path

    @property
    def path(self) -> str:
        """Return the sweep's path."""
        return f"{self.client.entity}/{self.client.project}/{self.sweep_id}"

    def write(self, run: str, files: Mapping[str, bytes]) -> None:
        """Write outputs as a run on this machine does."""
        for name, content in files.items():
            path = outputs_folder() / self.sweep_id / run / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def log(self, run: str, name: str, files: Mapping[str, bytes], **extra: Any) -> None:
        """Log an artifact as a run does."""
        ArtifactClient(self.client, run).log(name, files, **extra)

    def get(self, *words: str, code: int = 0) -> None:
        """Run `deployer results get` on the sweep."""
        assert run_command(["results", "get", self.path, *words]) == code

    def read(self, folder: str = "") -> dict[str, bytes]:
        """Return the files below results/SWEEP_ID, or another folder, that were copied."""
        root = self.folder / (folder or f"results/{self.sweep_id}")
        files = [path for path in root.rglob("*") if path.is_file()]
        return {str(path.relative_to(root)): path.read_bytes() for path in files}


def make_sweep(backend: ServedBackend, folder: Path, titles: Sequence[str]) -> Kept:
    """Make a sweep whose runs have these titles and have finished."""
    client = Client.of(backend, f"kept-{uuid.uuid4().hex[:8]}")
    sweep = client.create_sweep(grid(x=list(range(len(titles) + 1))))
    agent = client.create_agent(sweep)
    runs = []
    for number, title in enumerate(titles):
        (command,) = client.heartbeat(agent)
        run = str(command["run_id"])
        client.init_run(run, config=json.dumps(command["args"]), displayName=title)
        client.log(run, [{"_step": 0, "loss": number}])
        client.finish(run)
        runs.append(run)
    return Kept(client, sweep, tuple(runs), folder)


@pytest.fixture
def folder(backend: ServedBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of one's own, with the session's backend."""
    for name, value in backend.environment.items():
        monkeypatch.setenv(name, value)
    made = tmp_path / "project"
    made.mkdir()
    monkeypatch.chdir(made)
    assert "DEPLOYER_HOME" in os.environ
    return made


@pytest.fixture
def kept(backend: ServedBackend, folder: Path) -> Kept:
    """Return a sweep of two runs, `first` and `second`."""
    return make_sweep(backend, folder, ["first", "second"])
