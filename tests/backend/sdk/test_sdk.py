"""The real `wandb sweep`, `wandb agent` and public API against the backend, without our CLI."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deployer.sweeps.sweep_file import parse_sweep
from tests.backend.client import Client
from tests.conftest import ServedBackend
from tests.faults.proxy import FaultProxy, Passage
from tests.stock import start_wandb_agent, wandb, wandb_sweep, write_project

pytestmark = pytest.mark.slow

METRIC = {"name": "loss", "goal": "minimize"}
NESTED_GRID = {
    "method": "grid",
    "metric": METRIC,
    "parameters": {
        "lr": {"values": [0.1, 1]},
        "layers": {"value": 2},
        "optimizer": {
            "parameters": {"name": {"values": ["adam", "sgd"]}, "nesterov": {"values": [True]}}
        },
    },
}
RANDOM = {
    "method": "random",
    "metric": METRIC,
    "run_cap": 4,
    "parameters": {
        "lr": {"distribution": "log_uniform_values", "min": 0.001, "max": 1.0},
        "layers": {"min": 1, "max": 4},
    },
}
BAYES = {**RANDOM, "method": "bayes", "run_cap": 12}


def run_agents(backend: ServedBackend, folder: Path, sweep_path: str, count: int) -> None:
    """Run stock agents side by side until all have left; each must exit 0."""
    agents = [start_wandb_agent(backend, folder, sweep_path) for _ in range(count)]
    for agent in agents:
        assert agent.wait(300) == 0


def finished_args(backend: ServedBackend, sweep_path: str) -> list[dict[str, Any]]:
    """Return the assigned values of a finished sweep's runs, all of which must be finished."""
    _, project, name = sweep_path.split("/")
    sweep = Client.of(backend, project).sweep(name)
    runs = [edge["node"] for edge in sweep["runs"]["edges"]]
    assert sweep["state"] == "FINISHED"
    assert [run["state"] for run in runs] == ["finished"] * len(runs)
    configs = [json.loads(run["config"]) for run in runs]
    return [
        {name: part["value"] for name, part in config.items() if name in NESTED_GRID["parameters"]}
        for config in configs
    ]


def test_nested_grid_of_mixed_types_with_two_agents(backend: ServedBackend, tmp_path: Path) -> None:
    path = wandb_sweep(backend, write_project(tmp_path / "p", NESTED_GRID), "sdk-grid")
    with FaultProxy(backend.url) as proxy:
        run_agents(replace(backend, url=proxy.url), tmp_path / "p", path, 2)
    found = finished_args(backend, path)
    assert len(found) == 4
    check_requests(proxy.journal, agents=2, runs=4)
    for lr in (0.1, 1):
        for name in ("adam", "sgd"):
            optimizer = {"name": name, "nesterov": True}
            assert {"lr": lr, "layers": 2, "optimizer": optimizer} in found


def check_requests(journal: Sequence[Passage], agents: int, runs: int) -> None:
    """Hold agents and runs to what the SDK asks of any server; heartbeats are its own clock's.

    A run sends its configuration again after 5 s, its rows and its files' names every 15 s.
    """
    assert {passage.status for passage in journal} == {200}
    counts = Counter(passage.operation for passage in journal)
    beats, streamed = counts.pop("Heartbeat"), counts.pop("file_stream")
    assert (beats >= runs + agents, streamed >= 2 * runs) == (True, True)
    changed, named = counts.pop("UpsertBucket"), counts.pop("CreateRunFiles")
    assert (2 * runs <= changed <= 3 * runs, runs <= named <= 2 * runs) == (True, True)
    assert counts == {
        "Viewer": agents + 2 * runs,
        "SweepWithRuns": agents,
        "CreateAgent": agents,
        "OrganizationCoreWeaveOrganizationID": runs,
        "upload": 4 * runs,
    }


def work_quickly(backend: ServedBackend, sweep_path: str, count: int) -> None:
    """Take and finish so many runs without the SDK."""
    _, project, name = sweep_path.split("/")
    client = Client.of(backend, project)
    agent = client.create_agent(name)
    for number in range(count):
        [command] = client.heartbeat(agent)
        client.init_run(command["run_id"], config=json.dumps(command["args"]))
        client.log(command["run_id"], [{"_step": 0, "loss": number}])
        client.finish(command["run_id"], 0)


# The last two of bayes come from the model.
@pytest.mark.full
@pytest.mark.parametrize(("config", "quick", "count"), [(RANDOM, 0, 4), (BAYES, 9, 12)])
def test_random_and_bayes_end_at_their_run_cap(
    backend: ServedBackend, tmp_path: Path, config: dict[str, Any], quick: int, count: int
) -> None:
    method = config["method"]
    path = wandb_sweep(backend, write_project(tmp_path / "p", config), f"sdk-{method}")
    work_quickly(backend, path, quick)
    run_agents(backend, tmp_path / "p", path, 3)
    found = finished_args(backend, path)
    # A model may choose a bound of `lr` more than once, with other `layers`.
    assert len({(args["lr"], args["layers"]) for args in found}) == count
    assert all(0.001 <= args["lr"] <= 1.0 and 1 <= args["layers"] <= 4 for args in found)


def test_wandb_sweep_prints_what_is_doubtful_as_our_own_check_does(
    backend: ServedBackend, tmp_path: Path
) -> None:
    config = {
        "method": "grid",
        "metric": {"name": "loss", "gaol": "maximize"},
        "parameter": 1,
        "parameters": {"lr": {"values": [1, 1]}},
    }
    file = write_project(tmp_path, config)
    said = wandb(backend, tmp_path, "sweep", "--project", "doubts", file.name).stderr
    assert "Malformed sweep config detected!" in said
    printed = [line.split(". ", 1)[1] for line in said.splitlines() if "Violation" in line]
    ours = parse_sweep(file.read_text(), "").warnings
    assert len(ours) == 3
    assert sorted(printed) == sorted(re.sub(r"^:\d+: ", "", line) for line in ours)
