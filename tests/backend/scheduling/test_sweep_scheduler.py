"""Runs that somebody outside the server has chosen: `wandb sweep-scheduler`, `enqueue_run`."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.backend.client import Client
from tests.conftest import ServedBackend
from tests.stock import BIN, start_wandb_agent, stock_environment, wandb_sweep, write_project

METRIC = {"name": "loss", "goal": "minimize"}
SCHEDULED: dict[str, Any] = {
    "method": "bayes",
    "metric": METRIC,
    "run_cap": 3,
    "scheduler": {"engine": "optuna"},
    "parameters": {"lr": {"min": 0.01, "max": 1.0}, "layers": {"values": [1, 2]}},
}
ENQUEUE = """
mutation E($id: ID!, $config: JSONString!, $displayName: String)
{ enqueueSweepRun(input: {id: $id, config: $config, displayName: $displayName})
  { id runQueueItemId } }
"""


def enqueue(client: Client, sweep: str, config: dict[str, Any], **variables: Any) -> str:
    row = client.sweep(sweep)
    made = client.ask(ENQUEUE, id=row["id"], config=json.dumps(config), **variables)
    return str(made["enqueueSweepRun"]["id"])


def test_a_scheduled_sweep_hands_out_what_was_enqueued_and_nothing_else(client: Client) -> None:
    sweep = client.create_sweep(SCHEDULED)
    agent = client.create_agent(sweep)
    assert client.heartbeat(agent) == []
    wire = enqueue(client, sweep, {"lr": {"value": 0.5}, "layers": {"value": 1}})
    plain = enqueue(client, sweep, {"lr": 0.25, "layers": 2}, displayName="mine")
    nodes = [edge["node"] for edge in client.sweep(sweep)["runs"]["edges"]]
    assert [(run["name"], run["state"]) for run in nodes] == [
        (wire, "pending"),
        (plain, "pending"),
    ]
    first, second = client.work_once(agent, loss=1.0), client.work_once(agent, loss=2.0)
    assert (first or {})["args"] == {"lr": {"value": 0.5}, "layers": {"value": 1}}
    assert ((second or {})["type"], (second or {})["run_id"]) == ("run", plain)
    assert (second or {})["args"] == {"lr": {"value": 0.25}, "layers": {"value": 2}}
    assert client.heartbeat(agent) == []
    client.set_state(sweep, "FINISHED")
    assert client.heartbeat(agent) == [{"type": "exit"}]


def test_an_enqueued_run_takes_its_own_place_in_a_grid(client: Client) -> None:
    parameters = {"x": {"values": [1, 2]}}
    sweep = client.create_sweep({"method": "grid", "parameters": parameters})
    enqueue(client, sweep, {"x": 2})
    enqueue(client, sweep, {"x": 7})
    agent = client.create_agent(sweep)
    done = [client.work_once(agent, loss=1.0) for _ in range(4)]
    assert sorted(run["args"]["x"]["value"] for run in done if run) == [1, 2, 7]
    assert client.sweep(sweep)["state"] == "FINISHED"


def test_an_ended_sweep_takes_no_runs(client: Client) -> None:
    sweep = client.create_sweep(SCHEDULED)
    client.set_state(sweep, "FINISHED")
    row = client.sweep(sweep)
    refused = client.post(ENQUEUE, id=row["id"], config="{}")
    assert refused.status_code == 400
    assert "it accepts no more runs" in refused.text
    other = client.sweep(client.create_sweep({**SCHEDULED, "run_cap": 5}))
    assert client.post(ENQUEUE, id=other["id"], config="[1]").status_code == 400


def test_a_waiting_run_can_be_stopped(client: Client) -> None:
    sweep = client.create_sweep(SCHEDULED)
    name = enqueue(client, sweep, {"lr": 0.5})
    stop = "mutation S($id: ID!) { stopRun(input: {id: $id}) { success } }"
    client.ask(stop, id=client.run(name)["id"])
    assert client.run(name)["state"] == "killed"
    assert client.heartbeat(client.create_agent(sweep)) == []


@pytest.mark.parametrize("state", ["FINISHED", "CANCELED"])
def test_a_run_that_no_agent_has_had_ends_with_its_sweep(client: Client, state: str) -> None:
    sweep = client.create_sweep(SCHEDULED)
    begun = enqueue(client, sweep, {"lr": 0.5})
    agent = client.create_agent(sweep)
    client.heartbeat(agent)
    client.init_run(begun, sweep=sweep)
    waiting = enqueue(client, sweep, {"lr": 0.25})
    client.set_state(sweep, state)
    assert (client.run(begun)["state"], client.run(waiting)["state"]) == ("running", "killed")


@pytest.mark.full
def test_wandb_sweep_scheduler_with_stock_agents(backend: ServedBackend, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    path = wandb_sweep(backend, write_project(folder, SCHEDULED), "sdk-scheduler")
    with (folder / "scheduler.log").open("w") as log:
        scheduler = subprocess.Popen(
            [BIN / "wandb", "sweep-scheduler", "--batch-size", "1", "--poll-interval", "1", path],
            cwd=folder,
            env=stock_environment(backend),
            stdout=log,
            stderr=log,
        )
    agents = [start_wandb_agent(backend, folder, path) for _ in range(2)]
    assert scheduler.wait(200) == 0, (folder / "scheduler.log").read_text()
    assert [agent.wait(60) for agent in agents] == [0, 0]
    _, project, name = path.split("/")
    sweep = Client.of(backend, project).sweep(name)
    runs = [edge["node"] for edge in sweep["runs"]["edges"]]
    assert sweep["state"] == "FINISHED"
    # One that it enqueues before it sees that the last of three has finished finds no agent.
    states = [run["state"] for run in runs]
    assert states.count("finished") >= SCHEDULED["run_cap"]
    assert set(states[: SCHEDULED["run_cap"]]) == {"finished"}
    assert set(states) <= {"finished", "killed"}
    log_text = (folder / "scheduler.log").read_text()
    enqueued = re.findall(r"Enqueued run (\S+) with", log_text)
    assert [run["name"] for run in runs] == enqueued
    assert len(enqueued) >= SCHEDULED["run_cap"]
    assert "the run cap was hit" in log_text
