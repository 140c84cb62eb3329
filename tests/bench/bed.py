"""A served backend and a project folder of its own for one benchmark."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.backend.client import Client
from tests.conftest import ServedBackend, serve_backend
from tests.stock import stock_environment, write_project

POLL_SECONDS = 0.05
HAS_HISTORY = (
    "query H($project: String!, $run: String!)"
    " { project(name: $project) { run(name: $run) { historyLineCount } } }"
)
DEPLOYER = Path(sys.executable).with_name("deployer")


@dataclass(frozen=True)
class Bed:
    """Where a benchmark runs; `client` looks at what the server has seen."""

    backend: ServedBackend
    folder: Path
    client: Client

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of both ways: the same server, an empty home."""
        home = {"HOME": str(self.folder), "DEPLOYER_HOME": str(self.folder / "deployer")}
        return {**stock_environment(self.backend), **home, "WANDB_PROJECT": self.client.project}

    def deployer(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the installed `deployer` to its end; with `check`, fail with what it printed."""
        done = subprocess.run(
            [DEPLOYER, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            command = shlex.join(["deployer", *arguments])
            said = f"{done.stdout}{done.stderr}"
            raise RuntimeError(f"{command} ended with exit code {done.returncode}:\n{said}")
        return done

    def sweeps(self) -> list[str]:
        """Return the short ids of the project's sweeps, newest first."""
        found = self.client.ask(
            "query S($project: String!) { project(name: $project)"
            " { sweeps { edges { node { name } } } } }"
        )["project"]
        return [edge["node"]["name"] for edge in found["sweeps"]["edges"]] if found else []

    def wait_for_sweep(self, known: list[str]) -> str:
        """Wait for a sweep that is not among `known`."""
        while True:
            for name in self.sweeps():
                if name not in known:
                    return name
            time.sleep(POLL_SECONDS)

    def wait_for_runs(self, sweep: str, count: int) -> list[str]:
        """Wait until a sweep has so many runs; return their ids."""
        while True:
            runs = [edge["node"]["name"] for edge in self.client.sweep(sweep)["runs"]["edges"]]
            if len(runs) >= count:
                return runs
            time.sleep(POLL_SECONDS)

    def wait_for_metric(self, sweep: str) -> None:
        """Wait until a run of the sweep has logged a row."""
        while True:
            if any(self.has_metric(run) for run in self.wait_for_runs(sweep, 1)):
                return
            time.sleep(POLL_SECONDS)

    def has_metric(self, run: str) -> bool:
        """Tell whether a run has logged a row."""
        project = self.client.ask(HAS_HISTORY, project=self.client.project, run=run)["project"]
        return bool(project and project["run"] and project["run"]["historyLineCount"])

    def wait_for_state(self, sweep: str, state: str) -> None:
        """Wait until the sweep is in a state."""
        while self.client.sweep(sweep)["state"] != state:
            time.sleep(POLL_SECONDS)


@contextmanager
def make_bed(folder: Path, config: Mapping[str, Any], *, warm: bool = True) -> Iterator[Bed]:
    """Serve a backend and write a project with `sweep.yaml`; everything is gone afterwards."""
    for name in [name for name in os.environ if name.startswith(("WANDB_", "DEPLOYER_"))]:
        del os.environ[name]
    backend = serve_backend(folder / "data", afresh=True)
    write_project(folder, config)
    (folder / "deployer.yaml").write_text(f"warm: {str(warm).lower()}\n")
    bed = Bed(backend, folder, Client.of(backend, "bench"))
    try:
        yield bed
    finally:
        bed.deployer("down", "--all", check=False)
        backend.end()
