"""An executor of one's own: a class, one line in the registry, and a sweep runs on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from deployer import api
from deployer.errors import ConfigError
from deployer.executors.base import Executor, WantedNumbers
from deployer.executors.registry import list_names, register, unregister
from deployer.model import Agent, Plan, Wanted
from tests.cli.conftest import Project

STARTED: dict[str, tuple[str, subprocess.Popen[bytes]]] = {}
WANTED: dict[str, Wanted] = {}


class ToyNumbers(WantedNumbers):
    def get(self, sweep_path: str) -> Wanted | None:
        return WANTED.get(sweep_path)

    def change(self, sweep_path: str, change: Callable[[Wanted | None], Wanted | None]) -> None:
        if wanted := change(WANTED.get(sweep_path)):
            WANTED[sweep_path] = wanted

    def withdraw(self, sweep_path: str | None = None, *, everyone: bool = False) -> None:
        WANTED.clear()


class Toy(Executor):
    runs_here = True
    wanted = ToyNumbers()

    def apply(self, plan: Plan, api_keys: dict[str, str]) -> Sequence[Agent]:
        for name, key in api_keys.items():
            server = {"WANDB_BASE_URL": plan.base_url, "WANDB_API_KEY": key}
            here = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            words = [sys.executable, "-m", "wandb", "agent", plan.sweep_path]
            environment = {**os.environ, **server, "PATH": here}
            process = subprocess.Popen(words, cwd=plan.folder, env=environment)
            STARTED[name] = (plan.sweep_path, process)
        return self.list_agents(plan.sweep_path)

    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        found = [(name, *one) for name, one in STARTED.items() if sweep_path in (None, one[0])]
        states = [(name, path, process.poll()) for name, path, process in found]
        return [
            Agent(name, path, "running" if code is None else "ended", 0.0, exit_code=code)
            for name, path, code in states
        ]

    def drain(self, names: Sequence[str]) -> None:
        self.stop(names)

    def stop(self, names: Sequence[str]) -> Sequence[str]:
        for name in names:
            STARTED[name][1].terminate()
            STARTED[name][1].wait()
        return names

    def forget(self, sweep_path: str | None = None, *, everyone: bool = False) -> bool:
        STARTED.clear()
        return True

    def log_lines(self, names: Sequence[str], follow: bool) -> Iterator[tuple[str, str]]:
        yield from ()


@pytest.fixture
def toy() -> Iterator[None]:
    """Have the executor known for one test: others run in the same process."""
    register("toy", Toy)
    yield
    unregister("toy")


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.usefixtures("toy")
def test_a_sweep_runs_on_an_executor_of_ones_own(
    project: Project, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    """By the Python API, which goes the same way as the command."""
    monkeypatch.chdir(project.folder)
    project.write_grid(lrs="[2.0]")
    assert list_names()[-1] == "toy"
    launch = api.up("grid.yaml", on="toy", replicas=2)
    assert [agent.name for agent in launch.agents] == list(STARTED)
    assert f"created sweep {launch.sweep_path}" in told
    assert [s.sweep_state for s in api.watch(launch.server, launch.sweep_path, on="toy")]
    found = api.results(launch.server, launch.sweep_path)
    assert found.coverage.sentence() == "2/2 configurations finished, 0 duplicates, 0 lost"
    with pytest.raises(ConfigError) as refused:
        api.up("grid.yaml", on="toy", new=True, capacity_seconds=60.0)
    assert refused.value.message.startswith("--wait-for-capacity: ")
    # Commands of a process that knows no such executor leave it alone.
    assert "toy" not in project.run("down", "--all").stderr
