"""The filter language and the orders of W&B, on runs and on sweeps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.backend.client import Client, grid
from tests.conftest import ServedBackend

RUNS = """
query Runs($project: String!, $filters: JSONString, $order: String, $first: Int, $after: String)
{ project(name: $project) { runCount(filters: $filters)
  runs(filters: $filters, order: $order, first: $first, after: $after) {
    edges { node { name createdAt } cursor } pageInfo { hasNextPage endCursor } totalCount } } }
"""
SWEEPS = """
query GetSweeps($project: String!, $filters: JSONString!) { project(name: $project) {
  sweeps(filters: $filters) { edges { node { name } } } } }
"""
NAMED = """
mutation UpsertBucket($name: String, $project: String, $config: JSONString, $host: String,
                      $groupName: String, $jobType: String, $notes: String, $tags: [String!],
                      $displayName: String, $summaryMetrics: JSONString)
{ upsertBucket(input: {name: $name, modelName: $project, config: $config, host: $host,
                       groupName: $groupName, jobType: $jobType, notes: $notes, tags: $tags,
                       displayName: $displayName, summaryMetrics: $summaryMetrics})
  { bucket { id } } }
"""
SUMMARIES = (
    '{"loss": 0.5, "val": {"loss": 1}, "odd": 1}',
    '{"loss": 0.25, "odd": NaN}',
    '{"loss": {"min": 0.75}, "odd": 3}',
    '{"other": "text", "odd": -Infinity}',
)


@pytest.fixture(scope="module")
def client(backend: ServedBackend) -> Client:
    """Make four runs, r0 to r3."""
    client = Client.of(backend, "filters")
    for i, summary in enumerate(SUMMARIES):
        opt = {"value": {"name": "adam" if i % 2 else "sgd", "lr": 10.0**-i}}
        config = {"x": {"value": i}, "opt": opt, "flag": {"value": i == 1}, "a.b": {"value": i}}
        client.ask(
            NAMED,
            name=f"r{i}",
            host="h",
            displayName=f"Run {i}",
            groupName="even" if i % 2 == 0 else None,
            jobType="train" if i else None,
            notes=f"note {i}",
            tags=["all", f"t{i % 2}"],
            config=json.dumps({**config, **({"only": {"value": None}} if i == 3 else {})}),
            summaryMetrics=summary,
        )
    client.finish("r3", 1)
    return client


def nested(operator: str, levels: int) -> Any:
    condition: Any = {}
    for _ in range(levels):
        condition = {operator: condition}
    return condition


def found(client: Client, condition: Any, order: str | None = None) -> list[int]:
    """Return the numbers of the runs that a filter finds."""
    data = client.ask(RUNS, filters=json.dumps(condition), order=order)["project"]
    names = [edge["node"]["name"] for edge in data["runs"]["edges"]]
    assert data["runCount"] == data["runs"]["totalCount"] == len(names)
    return [int(name[1:]) for name in names]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        (None, [0, 1, 2, 3]),
        ({"config.x": 2}, [2]),
        ({"config.x.value": 2}, [2]),
        ({"config.a.b": 2}, [2]),
        ({"config.a.b.value": {"$gte": 2}}, [2, 3]),
        ({"config.opt.name": "adam"}, [1, 3]),
        ({"config.opt.value.lr": {"$lt": 0.05}}, [2, 3]),
        ({"config.flag": True}, [1]),
        ({"config.flag": 1}, []),
        ({"config.x": {"$gt": 0, "$lt": 3}}, [1, 2]),
        ({"config.x": {"$gt": "0"}}, []),
        ({"config.x": {"$in": [0, 3, 7]}}, [0, 3]),
        ({"config.x": {"$nin": [0, 3]}}, [1, 2]),
        ({"config.x": {"$ne": 0}}, [1, 2, 3]),
        ({"config.x": {"$not": {"$gt": 1}}}, [0, 1]),
        ({"config.only": {"$exists": True}}, [3]),
        ({"config.only": {"$exists": False}}, [0, 1, 2]),
        ({"config.only": None}, [0, 1, 2, 3]),
        ({"$and": [{"config.x": {"$gte": 1}}, {"config.x": {"$lte": 2}}]}, [1, 2]),
        ({"$or": [{"config.x": 0}, {"name": "r3"}]}, [0, 3]),
        ({"$nor": [{"config.x": 0}, {"name": "r3"}]}, [1, 2]),
        ({"$not": {"name": "r3"}}, [0, 1, 2]),
        ({"summary_metrics.loss": {"$lt": 0.6}}, [0, 1]),
        ({"summaryMetrics.loss.min": 0.75}, [2]),
        ({"summary_metrics.val.loss": 1}, [0]),
        ({"summary_metrics.odd": {"$lt": 2}}, [0, 3]),
        ({"summary_metrics.other": "text"}, [3]),
        ({"tags": "t1"}, [1, 3]),
        ({"tags": {"$ne": "t1"}}, [0, 2]),
        ({"tags": {"$in": ["t0"]}}, [0, 2]),
        ({"tags": {"$nin": ["t0"]}}, [1, 3]),
        ({"tags": {"$all": ["all", "t1"]}}, [1, 3]),
        ({"tags": {"$regex": "^t1"}}, [1, 3]),
        ({"config.x": {"$regex": "1"}}, []),
        ({"name": {"$in": ["r1", *map(str, range(5000))]}}, [1]),
        ({"state": "failed"}, [3]),
        ({"state": {"$ne": "failed"}}, [0, 1, 2]),
        ({"display_name": {"$regex": "Run [12]$"}}, [1, 2]),
        ({"displayName": {"$regex": "^run 1", "$options": "i"}}, [1]),
        ({"group": "even"}, [0, 2]),
        ({"group": None}, [1, 3]),
        ({"jobType": {"$exists": False}}, [0]),
        ({"job_type": "train"}, [1, 2, 3]),
        ({"username": "tester"}, [0, 1, 2, 3]),
        ({"user.username": "somebody"}, []),
        ({"notes": "note 1"}, [1]),
        ({"sweep": None}, [0, 1, 2, 3]),
        ({"sweep": "abc"}, []),
        ({"created_at": {"$gt": "2020-01-01"}}, [0, 1, 2, 3]),
        ({"createdAt": {"$lt": "2020-01-01T00:00:00Z"}}, []),
        ({"heartbeat_at": {"$gte": "2020-01-01T00:00:00+02:00"}}, [0, 1, 2, 3]),
        ({"duration": {"$lt": 3600}}, [0, 1, 2, 3]),
    ],
)
def test_filters(client: Client, condition: Any, expected: list[int]) -> None:
    assert found(client, condition) == expected


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("created_at", [0, 1, 2, 3]),
        ("-createdAt", [3, 2, 1, 0]),
        ("+config.opt.lr", [3, 2, 1, 0]),
        ("-config.x.value", [3, 2, 1, 0]),
        ("+summary_metrics.loss", [1, 0, 2, 3]),
        ("-summary_metrics.loss", [2, 0, 1, 3]),
        ("+summary_metrics.odd", [3, 0, 2, 1]),
        ("-summary_metrics.odd", [2, 0, 3, 1]),
        ("-display_name", [3, 2, 1, 0]),
        ("+group", [0, 2, 1, 3]),
    ],
)
def test_orders(client: Client, order: str | None, expected: list[int]) -> None:
    assert found(client, {}, order) == expected


def test_a_time_that_was_read_finds_its_run(client: Client) -> None:
    edges = client.ask(RUNS)["project"]["runs"]["edges"]
    newest = edges[-1]["node"]["createdAt"]
    assert 3 in found(client, {"created_at": newest})
    assert 3 not in found(client, {"created_at": {"$gt": newest}})


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ({"config.x": {"$near": 1}}, "the filter has an unknown operator $near"),
        ({"$where": []}, "the filter has an unknown operator $where"),
        ({"colour": "red"}, 'unknown key "colour" in a filter or an order'),
        ({"name": {"$regex": "("}}, "the filter's $regex '(' is wrong"),
        ({"name": {"$regex": r"(r)\1"}}, "is wrong: it has a back reference, a lookaround"),
        ({"name": {"$regex": "r", "$options": "g"}}, "is wrong: it has an unknown option g"),
        ({"name": {"$regex": 3}}, "the filter's $regex 3 is not text"),
        ({"name": {"$options": "i"}}, "the filter's $options must be text next to a $regex"),
        ({"$or": [{"config.x": n} for n in range(1001)]}, "the filter has more than 1000 terms"),
        (nested("$not", 101), "is nested more than 100 levels deep"),
        ({"created_at": {"$gt": "soon"}}, "the filter's time 'soon' is not ISO 8601"),
        ({"config.x": {"$in": 3}}, "the filter's $in needs a list"),
        ({"config.x": {"$gt": None}}, "the filter cannot compare with null, which has no order"),
        ([1], "the filter has [1] instead of an object"),
    ],
)
def test_what_is_not_in_the_language(client: Client, condition: Any, problem: str) -> None:
    refused = client.post(RUNS, filters=json.dumps(condition))
    assert refused.status_code == 400
    assert problem in refused.json()["errors"][0]["message"]


def test_filters_on_sweeps(backend: ServedBackend) -> None:
    client = Client.of(backend, "sweep-filters")
    first = client.create_sweep({**grid(x=[1]), "name": "first"})
    second = client.create_sweep({**grid(x=[1, 2]), "name": "second"})
    client.set_state(first, "CANCELED")
    for condition, expected in (
        ({}, [second, first]),
        ({"state": {"$ne": "CANCELED"}}, [second]),
        ({"name": first}, [first]),
        ({"displayName": {"$regex": "^sec"}}, [second]),
        ({"config.metric.goal": "minimize", "method": "grid"}, [second, first]),
        ({"config.name": "first"}, [first]),
    ):
        edges = client.ask(SWEEPS, filters=json.dumps(condition))["project"]["sweeps"]["edges"]
        assert [edge["node"]["name"] for edge in edges] == expected


def test_the_entity_of_runs_is_a_key(client: Client) -> None:
    for entity, count in ((client.entity, 4), ("somebody", 0)):
        found = client.ask(RUNS, filters=json.dumps({"entity": entity}))["project"]
        assert found["runCount"] == count
