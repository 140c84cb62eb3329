"""History as the public API of every SDK version asks for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.backend.client import Client, grid
from tests.conftest import ServedBackend

SAMPLED = """
query RunSampledHistory($project: String!, $name: String!, $specs: [JSONString!]!) {
  project(name: $project) { run(name: $name) { sampledHistory(specs: $specs) } } }
"""
PAGE = """
query HistoryPage($project: String!, $name: String!, $from: Int64!, $to: Int64!, $samples: Int!) {
  project(name: $project) { run(name: $name) {
    history(minStep: $from, maxStep: $to, samples: $samples) systemMetrics historyKeys } } }
"""
RESUME_STATUS = """
query RunResumeStatus($project: String, $name: String!) { model(name: $project) {
  bucket(name: $name, missingOk: true) { name wandbConfig(keys: ["t"]) } } }
"""
SET_STATE = """
mutation UpdateRunState($id: ID!, $state: String!)
{ updateRunState(input: {id: $id, state: $state}) { success } }
"""
STARTED = '{"_wandb": {"value": {"t": {"1": 1}}}}'


@pytest.fixture
def client(backend: ServedBackend, request: pytest.FixtureRequest) -> Client:
    """Make run `r` with ten rows, some of whose values are nested."""
    client = Client.of(backend, request.node.name.replace("[", "-").replace("]", ""))
    client.init_run("r", config=STARTED)
    media = {"_type": "html-file", "path": "x"}
    rows = [{"_step": i, "v": i, "deep": {"a": i, "b": {"c": -i}}, "m": media} for i in range(10)]
    client.log("r", rows)
    return client


def sampled(client: Client, **spec: Any) -> list[dict[str, Any]]:
    """Return the rows of one spec."""
    found = client.ask(SAMPLED, name="r", specs=[json.dumps(spec)])["project"]["run"]
    rows: list[dict[str, Any]] = found["sampledHistory"][0]
    return rows


def test_nested_values_stand_under_dotted_keys(client: Client) -> None:
    run = client.ask(PAGE, name="r", **{"from": 3, "to": 4, "samples": 1})["project"]["run"]
    (row,) = (json.loads(text) for text in run["history"])
    media = {"_type": "html-file", "path": "x"}
    assert row == {"_step": 3, "v": 3, "deep.a": 3, "deep.b.c": -3, "m": media}
    keys = run["historyKeys"]["keys"]
    assert {key: keys[key]["previousValue"] for key in sorted(keys)} == {
        "_step": 9,
        "deep.a": 9,
        "deep.b.c": -9,
        "m": -1,
        "v": 9,
    }
    assert sampled(client, keys=["deep.b.c"], samples=500)[3] == {"deep.b.c": -3}


def test_pages_of_older_clients_end_before_their_last_step(client: Client) -> None:
    found = [
        row["v"]
        for start in range(0, 10, 3)
        for row in sampled(client, keys=["v"], minStep=start, maxStep=start + 3, samples=3)
    ]
    assert found == list(range(10))
    part = sampled(client, keys=["v"], minStep=2, maxStep=5, samples=1000)
    assert [row["v"] for row in part] == [2, 3, 4]


@pytest.mark.parametrize("keys", [["_step", "v"], ["v", "_step"]])
def test_pages_of_wandb_core_include_their_last_step(client: Client, keys: list[str]) -> None:
    found = [
        row["v"]
        for first, last in ((0, 2), (3, 5), (6, 8), (9, 9))
        for row in sampled(client, keys=keys, minStep=first, maxStep=last, samples=last - first + 1)
    ]
    assert found == list(range(10))


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("offset", [0, 10])
def test_a_run_begun_anew_replaces_the_old_one(client: Client, ended: bool, offset: int) -> None:
    """Also if the old process was killed a moment ago, so that nobody knows of its end."""
    if ended:
        client.finish("r")
    assert client.init_run("r", config=STARTED)["historyLineCount"] == 10
    for _ in range(2):  # the reply was lost
        client.log("r", [{"_step": 0, "w": 1}, {"_step": 1, "w": 2}], offset)
    client.log("r", [{"_step": 2, "w": 3}], offset + 2)
    found = client.run("r")
    assert [json.loads(row)["w"] for row in found["history"]] == [1, 2, 3]
    assert (found["historyLineCount"], found["state"]) == (3, "running")


@pytest.mark.parametrize("offset", [0, 10])
def test_the_next_part_of_a_resumed_run_follows_the_first(client: Client, offset: int) -> None:
    """`wandb beta sync --id` of 0.28 names the run by its short id for each part."""
    client.finish("r")
    assert client.init_run("r", config=STARTED)["historyLineCount"] == 10
    for _ in range(2):
        client.log("r", [{"_step": 10, "v": 10}, {"_step": 11, "v": 11}], offset)
    client.finish("r")
    assert [json.loads(row)["v"] for row in client.run("r")["history"]] == list(range(12))


def test_a_run_that_is_renamed_keeps_its_history(client: Client) -> None:
    """Its process says what it said at its start, and our id besides."""
    run_id = client.run("r")["id"]
    client.ask(SET_STATE, id=run_id, state="crashed")
    assert client.init_run("r", id=run_id, displayName="x")["historyLineCount"] == 10
    assert client.run("r")["state"] == "running"


def test_a_run_that_is_resumed_keeps_its_history(client: Client) -> None:
    client.finish("r", exit_code=1)
    bucket = client.ask(RESUME_STATUS, name="r")["model"]["bucket"]
    assert json.loads(bucket["wandbConfig"]) == {"t": {"1": 1}}
    assert client.init_run("r", id=client.run("r")["id"], config=STARTED)["historyLineCount"] == 10
    client.finish("r")
    assert client.run("r")["state"] == "finished"


def test_a_refused_resume_leaves_nothing_behind(client: Client) -> None:
    """`resume="never"` asks, and says nothing to the server when it gives up."""
    client.finish("r")
    client.ask(RESUME_STATUS, name="r")
    assert client.run("r")["historyLineCount"] == 10


@pytest.mark.parametrize(("resumes", "left"), [(True, 3), (False, 1)])
def test_what_is_handed_out_again_begins_anew_unless_it_resumes(
    client: Client, resumes: bool, left: int
) -> None:
    """A process that does not resume is told so by its first row."""
    agent = client.create_agent(client.create_sweep(grid(x=[1])))
    name = client.heartbeat(agent)[0]["run_id"]
    client.init_run(name, config=STARTED)
    client.log(name, [{"_step": 0}, {"_step": 1}])
    client.stream(name, preempting=True, complete=True, exitcode=255)
    assert client.heartbeat(agent)[0]["run_id"] == name
    known = {"id": client.run(name)["id"]} if resumes else {}
    told = client.init_run(name, config=STARTED, **known)["historyLineCount"]
    client.log(name, [{"_step": 2 if resumes else 0}], offset=told)
    assert client.run(name)["historyLineCount"] == left


def test_a_summary_counts_the_rows_of_all_attempts(client: Client) -> None:
    """`define_metric(summary="min,max,mean")` of a run that was healed after its best epoch."""
    agent = client.create_agent(client.create_sweep(grid(x=[1])))
    name = client.heartbeat(agent)[0]["run_id"]
    run_id = client.init_run(name, config=STARTED)["id"]
    client.log(name, [{"_step": 0, "val": {"acc": 0.9}}, {"_step": 1, "val": {"acc": 0.1}}])
    client.stream(name, preempting=True, complete=True, exitcode=255)
    assert client.heartbeat(agent)[0]["run_id"] == name
    assert client.init_run(name, config=STARTED, id=run_id)["historyLineCount"] == 2
    own = {"min": 0.2, "max": 0.2, "mean": 0.2, "last": 0.2}
    summary = {"_step": 2, "val": {"acc": own}, "user": {"max": 7}}
    files = {
        "wandb-history.jsonl": {"offset": 2, "content": ['{"_step": 2, "val": {"acc": 0.2}}']},
        "wandb-summary.json": {"offset": 0, "content": [json.dumps(summary)]},
    }
    client.stream(name, files=files)
    client.stream(name, complete=True, exitcode=0)
    found = json.loads(client.run(name)["summaryMetrics"])
    assert found["val"]["acc"] == {"min": 0.1, "max": 0.9, "mean": pytest.approx(0.4), "last": 0.2}
    assert found["user"] == {"max": 7}


def test_system_metrics_are_the_newest_and_no_book_keeping(client: Client) -> None:
    lines = [json.dumps({"system.cpu": i, "_timestamp": i, "_wandb": True}) for i in range(2)]
    client.stream("r", files={"wandb-events.jsonl": {"offset": 0, "content": lines}})
    run = client.ask(PAGE, name="r", **{"from": 0, "to": 1, "samples": 1})["project"]["run"]
    assert json.loads(run["systemMetrics"]) == {"system.cpu": 1}


@pytest.mark.parametrize("step", [str(2**63), "NaN", "-Infinity", '"7"', "1e300"])
def test_a_step_that_cannot_be_counted_with_is_none(client: Client, step: str) -> None:
    """The run ends as any other, and is read."""
    sweep = client.create_sweep(grid(x=[1]))
    name = client.heartbeat(client.create_agent(sweep))[0]["run_id"]
    client.init_run(name, config=STARTED)
    rows = {"offset": 0, "content": [f'{{"_step": {step}, "loss": 1}}']}
    files = {"wandb-history.jsonl": rows}
    assert client.stream(name, files=files, complete=True, exitcode=0).status_code == 200
    assert client.run(name)["state"] == "finished"
    found = client.ask(PAGE, name=name, **{"from": 0, "to": 9, "samples": 9})
    keys = found["project"]["run"]["historyKeys"]
    assert keys["lastStep"] == 0
    assert keys["keys"]["loss"]["previousValue"] == 1
