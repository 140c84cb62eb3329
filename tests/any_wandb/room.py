"""One claim's own place: a folder with a trainer, and a project on the server."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.cli.conftest import Project
from tests.conftest import WandbServer
from tests.faults.processes import find_processes, kill_all, wait_until_gone
from tests.faults.steps import Steps
from tests.stock import run_program, start_wandb_agent

# W&B's own server calls a run crashed after five minutes of silence, and is asked only then.
SECONDS = 1200.0
POLL_SECONDS = 0.3

# The user's own eyes: W&B's public API, not a request of ours.
LOOK = """
import json, sys, wandb
api = wandb.Api()
print(json.dumps([[r.state, r.config] for p in sys.argv[1:] for r in api.sweep(p).runs]))
"""


@dataclass(frozen=True)
class Room:
    """A folder and a W&B project of the same test; `tell` keeps what the report says of it."""

    project: Project
    server: WandbServer
    name: str
    tell: Callable[[str, object], None]
    agents: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def state(self) -> Path:
        """The state folder, by which our processes are found."""
        return Path(os.environ["DEPLOYER_HOME"])

    @property
    def steps(self) -> Steps:
        """What the trainers have done, and where they wait."""
        return Steps(self.project.folder)

    def write_sweep(self, method: str, parameters: Mapping[str, Any], **keys: Any) -> None:
        """Write `sweep.yaml` for this project."""
        config = {
            "program": "train.py",
            "project": self.name,
            "method": method,
            "metric": {"name": "loss", "goal": "minimize"},
            "parameters": dict(parameters),
            **keys,
        }
        self.project.write("sweep.yaml", yaml.safe_dump(config))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `deployer` with this server and leave it running."""
        return self.project.start(*words, **self.server.environment)

    def run(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run `deployer` with this server to its end and check its exit code."""
        return self.finish(self.start(*words), code)

    def finish(
        self, process: subprocess.Popen[str], code: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """Wait for the end of a `deployer` and check its exit code."""
        out, err = process.communicate(timeout=SECONDS)
        ended = process.returncode
        assert code in (None, ended), f"exit {ended}\n{out}\n{err}"
        return subprocess.CompletedProcess(process.args, ended, out, err)

    def read(self, *words: str) -> Any:
        """Return what a command prints as JSON."""
        return json.loads(self.run(*words, "-o", "json").stdout)

    def create(self) -> str:
        """Create the sweep and return its path."""
        return self.run("sweep", "create", "sweep.yaml").stdout.strip()

    def start_stock_agents(self, path: str, count: int) -> None:
        """Start unmodified `wandb agent`s on a sweep."""
        folder = self.project.folder
        self.agents.extend(start_wandb_agent(self.server, folder, path) for _ in range(count))

    def wait_for_stock_agents(self) -> None:
        """Wait until all of them have left."""
        for agent in self.agents:
            agent.wait(SECONDS)

    def wait_for(self, found: Callable[[], Any], what: str) -> Any:
        """Wait for a state, and return what was found."""
        deadline = time.monotonic() + SECONDS
        while not (answer := found()):
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(POLL_SECONDS)
        return answer

    def wait_for_trainers(self, step: int, count: int) -> list[psutil.Process]:
        """Wait until so many trainers wait at a step, and return them."""
        found = self.steps.find_waiting
        waiting: list[psutil.Process] = self.wait_for(
            lambda: len(found(step)) >= count and found(step), f"{count} runs at step {step}"
        )
        return waiting

    def count_finished(self, path: str) -> int:
        """Return how many configurations of a sweep have finished so far."""
        return int(self.read("results", path)["coverage"]["finished"])

    def find_sweep(self) -> str:
        """Return the path of the sweep that `up` has made."""
        return str(self.read("sweep", "list", "--project", self.name)[0]["sweep"])

    def heal(self, path: str, replicas: int = 2) -> str:
        """Have run again what is missing, if the server did not; return what was done."""

        def settled() -> Any:
            results = self.read("results", path)
            return not results["coverage"]["running"] and results

        if _is_whole(self.wait_for(settled, "the server's word on the runs that died")):
            return "run again by the server"
        healing = self.read("heal", path, "--replicas", str(replicas))
        self.run("watch", healing["sweep_path"], "--plain", code=None)
        return "run again by deployer heal"

    def count(self, path: str, expected: list[dict[str, Any]] | int) -> str:
        """Check that each configuration was finished exactly once; return the sentence of it.

        A sweep that draws has so many finished runs as are `expected`.
        """
        results = self.read("results", path)
        coverage = results["coverage"]
        number = expected if isinstance(expected, int) else len(expected)
        assert _is_whole(results), coverage["sentence"]
        assert (coverage["expected"], coverage["duplicates"]) == (number, 0), coverage["sentence"]
        seen = self.look_at_configurations(path)
        if isinstance(expected, int):
            assert seen.total() == expected, seen
        else:
            assert seen == Counter(map(_key, expected)), seen
        return str(coverage["sentence"])

    def look_at_configurations(self, path: str) -> Counter[str]:
        """Count the finished runs of each configuration, follow-ups of `heal` included."""
        entity = path.split("/")[0]
        listed = self.read("sweep", "list", "--project", self.name, "--entity", entity)
        said = run_program(self.server, LOOK, *[one["sweep"] for one in listed])
        return Counter(
            _key(c) for state, c in json.loads(said.splitlines()[-1]) if state == "finished"
        )

    def end(self, path: str) -> None:
        """End everything by `down`; fails if a process outlives it."""
        self.run("down", path)
        left = wait_until_gone(self.state)
        assert not left, "left after down:\n" + "\n".join(str(one) for one in left)

    def clear(self) -> None:
        """Kill whatever the test has left here."""
        for agent in self.agents:
            agent.kill()
        kill_all(self.state)


def find_agent_of(state: Path, trainer: psutil.Process) -> psutil.Process:
    """Return the `wandb agent` that a trainer belongs to."""
    agents = {one.process.pid: one.process for one in find_processes(state) if one.kind == "agent"}
    return next(agents[one.pid] for one in trainer.parents() if one.pid in agents)


def _is_whole(results: Mapping[str, Any]) -> bool:
    coverage = results["coverage"]
    rest = sum(coverage[name] for name in ("failed", "running", "waiting", "lost"))
    return bool(rest == 0 and coverage["finished"] == coverage["expected"])


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps({name: config[name] for name in ("lr", "layers")}, sort_keys=True)
