"""A real sweep on the real backend, with a trainer that each test can steer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deployer.agent.processes import Process, list_marked, send_signal
from deployer.agent.status import Status, load_status
from deployer.wandb_api import Client, RunInfo, SweepPath, create_sweep, list_runs
from tests.conftest import ServedBackend

# Ends by itself, or waits for the file `go`; writes `at-work-<run>` once the server knows it.
TRAINER = """
import argparse, os, pathlib, signal, time
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--wait", default="no")
parser.add_argument("--deaf", default="no")
arguments = parser.parse_args()
if arguments.deaf == "yes":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with wandb.init() as run:
    run.log({"loss": arguments.lr})
    print("threads", os.environ.get("OMP_NUM_THREADS"), flush=True)
    pathlib.Path("at-work-" + run.id).touch()
    while arguments.wait == "yes" and not pathlib.Path("go").exists():
        time.sleep(0.05)
"""

SWEEP = """
program: train.py
method: grid
metric: {{name: loss, goal: minimize}}
parameters:
  lr: {{values: {lrs}}}
  wait: {{value: "{wait}"}}
  deaf: {{value: "{deaf}"}}
"""

PATIENCE_SECONDS = 60.0


def wait_for(happened: Callable[[], object], what: str) -> None:
    """Wait for a state; fails with its name if it does not come."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


@dataclass
class Supervised:
    """A supervisor in the foreground, as in a pod."""

    process: subprocess.Popen[str]
    folder: Path

    @property
    def status(self) -> Status | None:
        """Return what the supervisor says of itself."""
        return load_status(str(self.folder / "status.json"))

    def left(self) -> list[Process]:
        """Return whatever of the agent lives."""
        return list_marked(str(self.folder))

    def wait(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and all that was printed."""
        output, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, output


@dataclass
class Bench:
    """A project folder, a backend, and the supervisors that a test started."""

    backend: ServedBackend
    folder: Path
    started: list[Supervised] = field(default_factory=list)

    @property
    def client(self) -> Client:
        """Return the door to the backend with the owner's key."""
        return Client(self.backend.url, self.backend.key)

    def create_sweep(self, lrs: str = "[1.0]", wait: str = "no", deaf: str = "no") -> SweepPath:
        """Make a grid sweep in a project of its own."""
        text = SWEEP.format(lrs=lrs, wait=wait, deaf=deaf)
        name = f"agent-{uuid.uuid4().hex[:8]}"
        path, _ = create_sweep(self.client, text, self.backend.entity, name, uuid.uuid4().hex)
        return path

    def start(
        self, sweep_path: object, *, key: str | None = None, url: str = "", grace: float = 20.0
    ) -> Supervised:
        """Start a supervisor in the foreground."""
        folder = self.folder / f"agent-{len(self.started) + 1}"
        command = [sys.executable, "-P", "-m", "deployer.agent", str(sweep_path)]
        process = subprocess.Popen(
            [*command, "--folder", str(folder), "--grace-seconds", str(grace)],
            cwd=self.folder,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "WANDB_BASE_URL": url or self.backend.url,
                "WANDB_API_KEY": self.backend.key if key is None else key,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        supervised = Supervised(process, folder)
        self.started.append(supervised)
        return supervised

    def runs(self, path: SweepPath) -> tuple[RunInfo, ...]:
        """Return the sweep's runs as the server has them."""
        return list_runs(self.client, path)

    def wait_for_work(self, runs: int = 1) -> None:
        """Wait until so many runs have been at work."""
        wait_for(lambda: len(list(self.folder.glob("at-work-*"))) >= runs, f"{runs} runs at work")

    def release(self) -> None:
        """Let waiting trainers come to their end."""
        (self.folder / "go").touch()


@pytest.fixture
def bench(backend: ServedBackend, tmp_path: Path) -> Iterator[Bench]:
    """Give a project folder with a trainer; nothing that was started outlives the test."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAINER)
    found = Bench(backend, folder)
    yield found
    for supervised in found.started:
        supervised.process.kill()
        supervised.process.communicate()
        for process in supervised.left():
            send_signal(process.id, signal.SIGKILL)
