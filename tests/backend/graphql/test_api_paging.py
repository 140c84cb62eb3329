"""Pages that stay right while rows come and go."""

from __future__ import annotations

import json

import pytest

from tests.backend.client import Client, grid
from tests.backend.graphql.test_api_filters import RUNS
from tests.conftest import ServedBackend

AGENT = """
query GetSweepAgent($project: String!, $sweep: String!, $agent: String!) {
  project(name: $project) { sweep(sweepName: $sweep) { agent(agentName: $agent) { id } } } }
"""
DELETE = "mutation D($id: ID!) { deleteRun(input: {id: $id}) { success } }"
SWEEPS = """
query S($project: String!, $after: String) { project(name: $project) {
  sweeps(first: 1, after: $after) { edges { node { name } } pageInfo { endCursor } } } }
"""
SWEEP_RUNS = """
query R($project: String!, $sweep: String!, $first: Int, $after: String) {
  project(name: $project) { sweep(sweepName: $sweep) { runs(first: $first, after: $after) {
    edges { node { name } } pageInfo { hasNextPage endCursor } } } } }
"""


@pytest.fixture
def client(backend: ServedBackend, request: pytest.FixtureRequest) -> Client:
    client = Client.of(backend, request.node.name.replace("[", "-").replace("]", ""))
    for i in range(5):
        client.init_run(f"r{i}", config=f'{{"x": {{"value": {i // 2}}}}}')
    return client


def page(client: Client, order: str, after: str | None) -> tuple[list[str], str | None]:
    """Return the names on a page of two, and where the next one begins, None after the last."""
    found = client.ask(RUNS, order=order, first=2, after=after)["project"]["runs"]
    info = found["pageInfo"]
    names = [edge["node"]["name"] for edge in found["edges"]]
    return names, info["endCursor"] if info["hasNextPage"] else None


def test_newest_first_while_runs_are_added(client: Client) -> None:
    first, cursor = page(client, "-created_at", None)
    client.init_run("r5")
    second, cursor = page(client, "-created_at", cursor)
    client.init_run("r6")
    third, cursor = page(client, "-created_at", cursor)
    assert [first, second, third, cursor] == [["r4", "r3"], ["r2", "r1"], ["r0"], None]


def test_oldest_first_while_runs_are_deleted_and_added(client: Client) -> None:
    first, cursor = page(client, "+created_at", None)
    client.ask(DELETE, id=client.run("r0")["id"])
    client.ask(DELETE, id=client.run("r1")["id"])
    second, cursor = page(client, "+created_at", cursor)
    client.init_run("r5")
    third, cursor = page(client, "+created_at", cursor)
    assert [first, second, third, cursor] == [["r0", "r1"], ["r2", "r3"], ["r4", "r5"], None]


@pytest.mark.parametrize("order", ["+config.x", "-config.x", "+summary_metrics.loss"])
def test_equal_and_missing_values_come_once_each(client: Client, order: str) -> None:
    seen: list[str] = []
    cursor: str | None = None
    while len(seen) < 5:
        names, cursor = page(client, order, cursor)
        seen += names
    assert cursor is None
    assert sorted(seen) == [f"r{i}" for i in range(5)]


def test_every_edge_has_a_cursor_of_its_own(client: Client) -> None:
    edges = client.ask(RUNS, order="+created_at")["project"]["runs"]["edges"]
    assert page(client, "+created_at", edges[1]["cursor"])[0] == ["r2", "r3"]


def test_a_foreign_cursor(client: Client) -> None:
    for cursor in ("2", "bm90IG91cnM=", "WzEsIDJd"):
        refused = client.post(RUNS, after=cursor)
        assert refused.status_code == 400
        assert refused.json()["errors"][0]["message"].endswith("is not from this server")


def test_runs_of_a_sweep_by_the_filter_that_the_sdk_sends(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1, 2, 3]))
    agent = client.create_agent(sweep)
    names = [command["run_id"] for _ in range(3) if (command := client.work_once(agent))]
    filters = json.dumps({"$and": [{"sweep": sweep}]})
    found = client.ask(RUNS, filters=filters, order="-created_at", first=2)["project"]
    assert [edge["node"]["name"] for edge in found["runs"]["edges"]] == names[:0:-1]
    assert (found["runCount"], found["runs"]["totalCount"]) == (3, 3)
    assert client.ask(RUNS, filters='{"sweep": "none"}')["project"]["runCount"] == 0


def test_an_agent_by_its_name_and_by_its_id(client: Client) -> None:
    sweep, other = (client.create_sweep(grid(x=values)) for values in ([1], [2]))
    agent = client.create_agent(sweep, "some-host")
    for name in ("some-host", agent):
        assert (
            client.ask(AGENT, sweep=sweep, agent=name)["project"]["sweep"]["agent"]["id"] == agent
        )
        assert client.ask(AGENT, sweep=other, agent=name)["project"]["sweep"]["agent"] is None


def test_sweeps_and_their_runs(backend: ServedBackend) -> None:
    client = Client.of(backend, "sweep-pages")
    old, new = (client.create_sweep(grid(x=values)) for values in ([1], [1, 2, 3]))
    first = client.ask(SWEEPS)["project"]["sweeps"]
    client.create_sweep(grid(x=[1, 2]))
    second = client.ask(SWEEPS, after=first["pageInfo"]["endCursor"])["project"]["sweeps"]
    assert [part["edges"][0]["node"]["name"] for part in (first, second)] == [new, old]
    agent = client.create_agent(new)
    names = [command["run_id"] for _ in range(3) if (command := client.work_once(agent))]
    found = client.ask(SWEEP_RUNS, sweep=new, first=2)["project"]["sweep"]["runs"]
    rest = client.ask(SWEEP_RUNS, sweep=new, after=found["pageInfo"]["endCursor"])
    assert [edge["node"]["name"] for edge in found["edges"]] == names[:2]
    left = rest["project"]["sweep"]["runs"]["edges"]
    assert [edge["node"]["name"] for edge in left] == names[2:]


def test_a_run_may_be_deleted_twice(client: Client) -> None:
    run_id = client.init_run("gone")["id"]
    for _ in range(2):
        assert client.ask(DELETE, id=run_id)["deleteRun"]["success"]
    assert client.run("gone") is None
