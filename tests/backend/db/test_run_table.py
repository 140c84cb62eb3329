"""Thousands of runs in one answer say what the same runs say one by one."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from deployer.model import Run
from deployer.wandb_api.model import parse_run, parse_runs
from deployer.wandb_api.queries import OUR_RUN_FIELDS, RUN_FIELDS
from tests.backend.client import Client, grid
from tests.conftest import ServedBackend

ONE_BY_ONE = f"""
query R($project: String!, $sweep: String!) {{ project(name: $project) {{
  sweep(sweepName: $sweep) {{ runs {{ edges {{ node {{ {RUN_FIELDS} {OUR_RUN_FIELDS} }} }} }} }}
}} }}
"""
TABLE = """
query T($project: String!, $sweep: String!, $first: Int, $after: String) {
  project(name: $project) {
    sweep(sweepName: $sweep) { deployerRuns(first: $first, after: $after) { runs endCursor } }
  }
}
"""
DELETE = "mutation D($id: ID!) { deleteRun(input: {id: $id}) { success } }"


@pytest.fixture
def client(backend: ServedBackend, request: pytest.FixtureRequest) -> Client:
    return Client.of(backend, request.node.originalname)


def read(client: Client, sweep: str, **where: Any) -> tuple[list[Run], str | None]:
    table = client.ask(TABLE, sweep=sweep, **where)["project"]["sweep"]["deployerRuns"]
    return parse_runs(table["runs"]), table["endCursor"]


def in_whole_seconds(run: Run) -> Run:
    """Return what a table says as W&B's schema has it."""
    attempts = [
        replace(
            one, assigned_at=int(one.assigned_at or 0), ended_at=one.ended_at and int(one.ended_at)
        )
        for one in run.attempts
    ]
    times = {"created_at": int(run.created_at or 0), "heartbeat_at": int(run.heartbeat_at or 0)}
    return replace(run, node_id="", attempts=tuple(attempts), **times)


def test_a_table_says_the_same_as_one_run_after_the_other(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1, "ä\"'\\ \n"], y=[0.1, None]))
    agent = client.create_agent(sweep)
    client.work_once(agent, loss=0.25, nested={"a": {"b": 1}}, text="ö \u2028")
    client.work_once(agent, loss=float("nan"), huge=10**40)
    client.work_once(agent, exit_code=1, loss=1.0)
    client.heartbeat(agent)
    edges = client.ask(ONE_BY_ONE, sweep=sweep)["project"]["sweep"]["runs"]["edges"]
    expected = [replace(parse_run(edge["node"]), node_id="") for edge in edges]
    found, cursor = read(client, sweep)
    assert cursor is None
    assert repr([in_whole_seconds(run) for run in found]) == repr(
        [in_whole_seconds(run) for run in expected]
    )
    assert found[0].summary["nested"] == {"a": {"b": 1}}
    assert found[2].attempts[0].cause == "own failure"


def test_what_is_not_json_stays_what_its_writer_made_of_it(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    (command,) = client.heartbeat(client.create_agent(sweep))
    run = command["run_id"]
    client.init_run(run, config='{"x": {"value": NaN}}')
    summary = {"wandb-summary.json": {"offset": 0, "content": ['{"loss": Infinity}']}}
    assert client.stream(run, files=summary).status_code == 200
    (found,), _ = read(client, sweep)
    assert (found.run_id, repr(found.config)) == (run, "{'x': nan}")
    assert found.summary == {"loss": math.inf}


def test_pages_follow_each_other_whatever_goes_meanwhile(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1, 2, 3, 4, 5]))
    for number in range(5):
        client.heartbeat(client.create_agent(sweep, f"host-{number}"))
    first, cursor = read(client, sweep, first=2)
    for run in first:
        assert client.ask(DELETE, id=run.node_id)
    second, cursor = read(client, sweep, first=2, after=cursor)
    third, end = read(client, sweep, first=2, after=cursor)
    names = [run.run_id.rpartition("-")[2] for run in (*first, *second, *third)]
    assert (names, end) == (["0", "1", "2", "3", "4"], None)


@pytest.mark.parametrize("first", [0, -1])
def test_an_empty_page_is_one_run(client: Client, first: int) -> None:
    sweep = client.create_sweep(grid(x=[1, 2]))
    for number in range(2):
        client.heartbeat(client.create_agent(sweep, f"host-{number}"))
    runs, cursor = read(client, sweep, first=first)
    assert (len(runs), bool(cursor)) == (1, True)


def test_a_foreign_cursor_is_refused(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    refused = client.post(TABLE, sweep=sweep, after=json.dumps([1, 2]))
    assert refused.status_code == 400
