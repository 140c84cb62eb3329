"""A real sweep on the real backend, with a trainer that each test can steer."""

from __future__ import annotations

import json
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

import deployer.agent
from deployer.agent.environment import PROLOGUE
from deployer.agent.host.processes import Process, list_marked, send_signal
from deployer.agent.host.status import SupervisorStatus, load_status
from deployer.agent.settings import POLLS_VARIABLE, QUICK
from deployer.model import Run, SweepPath
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import create_agent_keys, create_sweep, list_runs
from tests.agent.trainers import STEPPING, STEPPING_SWEEP, SWEEP, TRAINER
from tests.conftest import ServedBackend
from tests.faults.proof import RecordReader, RunRecord

PATIENCE_SECONDS = 120.0  # a busy machine imports torch slowly


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
    def status(self) -> SupervisorStatus | None:
        """Return what the supervisor says of itself."""
        return load_status(str(self.folder / "status.json"))

    def left(self) -> list[Process]:
        """Return whatever of the agent lives."""
        return list_marked(str(self.folder))

    def wait(self, seconds: float = PATIENCE_SECONDS) -> tuple[int, str]:
        """Wait for the end; return the exit code and all that was printed."""
        output, _ = self.process.communicate(timeout=seconds)
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

    def create_sweep(
        self, lrs: str = "[1.0]", wait: str = "no", deaf: str = "no", more: str = ""
    ) -> SweepPath:
        """Make a grid sweep in a project of its own, with `more` lines in its file."""
        text = SWEEP.format(lrs=lrs, wait=wait, deaf=deaf) + more
        name = f"agent-{uuid.uuid4().hex[:8]}"
        path, _ = create_sweep(self.client, text, self.backend.entity, name, uuid.uuid4().hex)
        return path

    def create_stepping_sweep(
        self, kind: str = "plain", steps: int = 8, pause: float = 0.3
    ) -> SweepPath:
        """Make a sweep of one run whose trainer logs and saves step by step."""
        (self.folder / "train.py").write_text(STEPPING)
        text = STEPPING_SWEEP.format(kind=kind, steps=steps, pause=pause)
        name = f"agent-{uuid.uuid4().hex[:8]}"
        path, _ = create_sweep(self.client, text, self.backend.entity, name, uuid.uuid4().hex)
        return path

    def start_with_own_key(
        self,
        path: SweepPath,
        folder: str = "agent-1",
        grace: float = 10.0,
        enter: Path | None = None,
        **settings: str,
    ) -> Supervised:
        """Start a supervisor as `up` does: a key of its own, and a folder that stays."""
        keys = create_agent_keys(self.client, path, (folder,), uuid.uuid4().hex)
        key = keys[folder]
        return self.start(path, key=key, folder=folder, grace=grace, enter=enter, **settings)

    def read_run(self, path: SweepPath) -> RunRecord:
        """Return the only run of a sweep with all its lines, as the server holds them."""
        [run] = RecordReader(self.backend.url, self.backend.key).read_runs(str(path))
        return run

    def causes(self, path: SweepPath) -> list[str | None]:
        """Return why each attempt of a sweep's only run ended."""
        [run] = self.runs(path)
        return [attempt.cause for attempt in run.attempts]

    def causes_of(self, path: SweepPath, run_id: str) -> list[str | None]:
        """Return why each attempt of a run ended."""
        [run] = [run for run in self.runs(path) if run.run_id == run_id]
        return [attempt.cause for attempt in run.attempts]

    def firsts(self) -> list[int]:
        """Return the step with which each attempt began, as the trainers say."""
        lines = (self.folder / "trace.jsonl").read_text().splitlines()
        return [json.loads(line)["first"] for line in lines]

    def wait_for_step(self, step: int) -> None:
        """Wait until a trainer has logged and saved a step."""
        file = self.folder / "step"
        wait_for(lambda: file.exists() and int(file.read_text() or -1) >= step, f"step {step}")

    def start(
        self,
        sweep_path: object,
        *,
        key: str | None = None,
        url: str = "",
        grace: float = 20.0,
        folder: str = "",
        enter: Path | None = None,
        python: Path = Path(sys.executable),
        **settings: str,
    ) -> Supervised:
        """Start a supervisor in the foreground; `settings` are added to its environment.

        `enter` is the file of a control group in which it is to live.
        """
        name = folder or f"agent-{len(self.started) + 1}"
        agent_folder = self.folder / "agents" / name
        command = [str(python), "-m", "deployer.agent", str(sweep_path)]
        if enter:
            command = ["sh", "-c", f'echo $$ > {enter}; exec "$@"', "sh", *command]
        process = subprocess.Popen(
            [
                *command,
                "--folder",
                str(agent_folder),
                "--grace-seconds",
                str(grace),
                "--name",
                name,
            ],
            cwd=self.folder,
            env={
                **os.environ,
                "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONSAFEPATH": "1",
                "PYTHONPATH": str(Path(deployer.agent.__file__).parents[2]),
                "WANDB_BASE_URL": url or self.backend.url,
                "WANDB_API_KEY": self.backend.key if key is None else key,
                POLLS_VARIABLE: QUICK,
                **settings,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        supervised = Supervised(process, agent_folder)
        self.started.append(supervised)
        return supervised

    def runs(self, path: SweepPath) -> tuple[Run, ...]:
        """Return the sweep's runs as the server has them."""
        return list_runs(self.client, path)

    def wait_for_work(self, runs: int = 1) -> None:
        """Wait until so many runs have been at work."""
        wait_for(lambda: len(list(self.folder.glob("at-work-*"))) >= runs, f"{runs} runs at work")

    def release(self) -> None:
        """Let waiting trainers come to their end."""
        (self.folder / "go").touch()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return what a supervisor and an agent set for a run."""
    (tmp_path / "agents" / "agent-1").mkdir(parents=True)
    return {
        "PYTHONPATH": PROLOGUE,
        "PATH": os.environ["PATH"],
        "WANDB_RUN_ID": "r1",
        "WANDB_SWEEP_ID": "s1",
        "DEPLOYER_AGENT_FOLDER": str(tmp_path / "agents" / "agent-1"),
        "DEPLOYER_CHECKPOINT_ROOT": str(tmp_path / "checkpoints"),
        "DEPLOYER_AGENT_START": "agent-1 a",
    }


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
