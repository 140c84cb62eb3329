"""A supervisor's own key, newer than the one it was given, shuts out whoever has an older one."""

from __future__ import annotations

import json
import secrets

import pytest

from deployer.backend.db.lines import read_lines
from deployer.backend.graphql.schema import GraphQL, GraphQLRequest
from deployer.backend.scheduling.context import Request
from deployer.backend.scheduling.lifecycle import PROCESS_SECONDS
from tests.backend.bench import Bench
from tests.backend.client import UPSERT_BUCKET, Client, grid
from tests.conftest import ServedBackend

MAKE = (
    "mutation K($path: String!, $name: String!, $key: String) { deployerCreateAgentKey("
    "input: {sweepPath: $path, agentName: $name, key: $key}) { key } }"
)


@pytest.fixture
def client(backend: ServedBackend) -> Client:
    return Client.of(backend, f"fence-{secrets.token_hex(4)}")


def make_key(client: Client, sweep: str, name: str, key: str | None = None) -> Client:
    """Return a client with a new key for an agent."""
    path = f"{client.entity}/{client.project}/{sweep}"
    made = client.ask(MAKE, path=path, name=name, key=key)["deployerCreateAgentKey"]["key"]
    return Client(client.url, made, client.entity, client.project)


def test_an_own_key_shuts_out_older_ones(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1, 2]))
    given = make_key(client, sweep, "a")
    neighbour = make_key(client, sweep, "b")
    first = make_key(given, sweep, "a", secrets.token_hex(20))
    agent = first.create_agent(sweep)
    run = first.heartbeat(agent)[0]["run_id"]
    first.init_run(run)
    first.log(run, [{"_step": 0, "loss": 1.0}])

    second = make_key(given, sweep, "a", secrets.token_hex(20))
    assert first.stream(run, complete=True).status_code == 403
    for late in (first, given):
        with pytest.raises(AssertionError, match="agent a was started again and has a newer key"):
            late.heartbeat(agent)
        with pytest.raises(AssertionError, match="was started again"):
            late.create_agent(sweep)
        with pytest.raises(AssertionError, match="was started again"):
            late.init_run(run)
    again = second.create_agent(sweep)
    assert second.heartbeat(again)[0]["run_id"] == run
    second.init_run(run)
    second.finish(run)
    assert client.run(run)["state"] == "finished"
    assert neighbour.heartbeat(neighbour.create_agent(sweep))[0]["type"] == "run"


def test_a_late_rename_takes_no_run_back_that_waits_for_the_next_agent(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    own = make_key(client, sweep, "a")
    run = own.heartbeat(own.create_agent(sweep))[0]["run_id"]
    run_id = own.init_run(run)["id"]
    own.stream(run, preempting=True, complete=True, exitcode=255)
    own.init_run(run, id=run_id, displayName="late")
    assert client.run(run)["state"] == "preempted"
    other = make_key(client, sweep, "b")
    assert other.heartbeat(other.create_agent(sweep))[0]["run_id"] == run


def test_a_repeated_or_late_request_changes_nothing(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    given = make_key(client, sweep, "a")
    first, second = secrets.token_hex(20), secrets.token_hex(20)
    make_key(given, sweep, "a", first)
    make_key(given, sweep, "a", first)
    newest = make_key(given, sweep, "a", second)
    make_key(given, sweep, "a", first)
    assert newest.heartbeat(newest.create_agent(sweep))[0]["type"] == "run"


def test_nobody_makes_a_key_for_somebody_else(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    given = make_key(client, sweep, "a")
    key = secrets.token_hex(20)
    with pytest.raises(AssertionError, match="only for its own agent"):
        make_key(given, sweep, "b", key)
    with pytest.raises(AssertionError, match="only for its own agent"):
        make_key(given, sweep, "a")
    with pytest.raises(AssertionError, match="only for its own agent"):
        make_key(client, sweep, "a", key)
    with pytest.raises(AssertionError, match="a key must have at least 40"):
        make_key(given, sweep, "a", "short")
    make_key(given, sweep, "a", key)
    with pytest.raises(AssertionError, match="already in use"):
        make_key(make_key(client, sweep, "b"), sweep, "b", key)


def test_what_a_second_process_logs_is_kept_apart(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    own = make_key(client, sweep, "a")
    agent = own.create_agent(sweep)
    run = own.heartbeat(agent)[0]["run_id"]
    for _ in range(2):  # the reply was lost
        assert own.init_run(run, config='{"rank": 0}')["name"] == run
    rank_1 = {"config": '{"rank": 1}', "displayName": "one"}
    for _ in range(2):
        with pytest.raises(AssertionError, match="another process may still be writing run"):
            own.init_run(run, **rank_1)
    own.log(run, [{"_step": 0, "loss": 1.0}])
    own.finish(run)
    apart = own.init_run(run, **rank_1)["name"]
    own.log(apart, [{"_step": 0, "loss": 9.0}])
    assert own.heartbeat(agent, [run]) == []
    own.finish(apart)
    losses = {name: json.loads(client.run(name)["summaryMetrics"])["loss"] for name in (run, apart)}
    assert losses == {run: 1.0, f"{run}-2": 9.0}
    found = client.sweep(sweep)
    assert (found["state"], len(found["runs"]["edges"])) == ("FINISHED", 1)
    assert found["agents"]["edges"][0]["node"]["totalRuns"] == 1


OWN = {"displayName": "train", "tags": ["t"], "config": '{"phase": {"value": "train"}}'}
ROWS = [{"_step": 0, "loss": 1.0}, {"_step": 1, "loss": 0.5}]


@pytest.mark.parametrize(
    ("said", "rows", "summary", "is_other"),
    [
        ({"displayName": "eval"}, [{"_step": 0, "loss": 3.0}], None, True),
        ({}, [{"_step": 0, "loss": 3.0}], None, True),
        ({"tags": ["e"]}, [], {"loss": 3.0, "_runtime": 1}, True),
        ({"displayName": "empty"}, [], {"_runtime": 1}, False),
        ({"displayName": "next"}, [{"_step": 2, "loss": 0.1}], None, False),
    ],
    ids=["named", "unnamed", "summary", "nothing", "continued"],
)
def test_of_processes_in_turn_each_is_what_its_own_init_said(
    client: Client,
    said: dict[str, object],
    rows: list[dict[str, float]],
    summary: dict[str, float] | None,
    is_other: bool,
) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    own = make_key(client, sweep, "a")
    run = own.heartbeat(own.create_agent(sweep))[0]["run_id"]
    own.init_run(run, **OWN)
    own.log(run, ROWS)
    own.finish(run)
    own.init_run(run, config='{"phase": {"value": "eval"}}', **said)
    if rows:
        own.log(run, rows)
    if summary:
        own.stream(
            run, files={"wandb-summary.json": {"offset": 0, "content": [json.dumps(summary)]}}
        )
    own.finish(run)

    def look(name: str) -> tuple[str, list[str], str, float, int]:
        found = client.run(name)
        phase = json.loads(found["config"])["phase"]["value"]
        loss = json.loads(found["summaryMetrics"])["loss"]
        return found["displayName"], found["tags"], phase, loss, found["historyLineCount"]

    if is_other:
        assert look(f"{run}-2") == ("train", ["t"], "train", 0.5, 2)
        name = said.get("displayName", run)
        assert look(run) == (name, said.get("tags", []), "eval", 3.0, len(rows))
    elif rows:
        assert look(run) == ("next", ["t"], "eval", 0.1, 3)
    else:
        assert look(run) == ("train", ["t"], "train", 0.5, 2)


@pytest.mark.parametrize(
    ("first", "kept"), [(0, []), (2, [0, 1]), (4, [0, 1, 2, 3]), (7, [0, 1, 2, 3])]
)
def test_an_attempt_that_goes_on_from_a_checkpoint_of_its_own_keeps_the_rows_before(
    client: Client, first: int, kept: list[int]
) -> None:
    """A script may keep it anywhere, and need not resume the run in W&B's sense."""
    sweep = client.create_sweep(grid(x=[1]))
    own = make_key(client, sweep, "a")
    agent = own.create_agent(sweep)
    run = own.heartbeat(agent)[0]["run_id"]
    own.init_run(run)
    own.log(run, [{"_step": step, "attempt": 1} for step in range(4)])
    own.stream(run, preempting=True, complete=True, exitcode=255)
    assert own.heartbeat(agent)[0]["run_id"] == run
    own.init_run(run)
    own.log(run, [{"_step": first, "attempt": 2}])
    own.log(run, [{"_step": first + 1, "attempt": 2}], offset=1)
    own.finish(run)
    rows = [json.loads(row) for row in client.run(run)["history"]]
    expected = [*((step, 1) for step in kept), (first, 2), (first + 1, 2)]
    assert [(row["_step"], row["attempt"]) for row in rows] == expected
    assert len(client.sweep(sweep)["runs"]["edges"]) == 1


def test_a_process_in_the_place_of_a_killed_one_begins_its_run_anew(bench: Bench) -> None:
    agent = bench.agent(bench.sweep())
    run = bench.take(agent)
    backend = bench.backend

    def begin(config: str) -> int:
        question = GraphQLRequest(
            UPSERT_BUCKET, {"name": run, "project": "p", "host": "h", "config": config}, None
        )
        with backend.store.transaction():
            return GraphQL(False).answer(Request(backend, bench.me, ""), question)[0]

    bench.send(run, files={"wandb-history.jsonl": {"offset": 0, "content": ['{"_step": 0}']}})
    assert begin('{"first": 0}') == 503
    bench.seconds += PROCESS_SECONDS + 1
    bench.beat(agent, run)
    assert begin('{"second": 0}') == 200
    rows = ['{"_step": 0, "second": 0}']
    bench.send(run, files={"wandb-history.jsonl": {"offset": 0, "content": rows}})
    with backend.store.snapshot() as db:
        assert [text for _, text in read_lines(db, bench.run(run).id, "history")] == rows
    assert bench.run(run).apart == "[]"
