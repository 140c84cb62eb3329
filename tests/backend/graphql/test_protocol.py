"""What the SDK may rely on, request by request, against a real server process."""

from __future__ import annotations

import json
import math

import pytest
import requests  # noqa: TID251 - a test is a client of its own
from graphql import GraphQLObjectType

from deployer.backend.graphql.schema import PARTS, build_schema
from tests.backend.client import RUN, UPSERT_SWEEP, Client, grid
from tests.conftest import FOREIGN_KEY, ServedBackend, serve_backend


def test_nothing_without_a_key(backend: ServedBackend) -> None:
    stranger = Client(backend.url, FOREIGN_KEY, backend.entity)
    refused = stranger.post("{ viewer { id } }")
    assert refused.status_code == 401
    assert refused.json()["errors"] == [{"message": "the API key is not valid for this server"}]
    assert requests.post(f"{backend.url}/graphql", json={}, timeout=5).status_code == 401
    assert stranger.stream("r").status_code == 401
    assert requests.get(f"{backend.url}/healthz", timeout=5).status_code == 200


def test_telemetry_is_turned_away_quietly(backend: ServedBackend) -> None:
    reply = requests.post(f"{backend.url}/sdk/otel/v1/metrics", data=b"", timeout=5)
    assert reply.status_code == 404


def test_viewer_has_an_entity_of_their_own_name(client: Client) -> None:
    viewer = client.ask("{ viewer { entity username flags teams { edges { node { name } } } } }")
    assert viewer["viewer"]["entity"] == client.entity
    assert json.loads(viewer["viewer"]["flags"]) == {}


def test_unknown_field_is_400_and_introspection_is_on(client: Client) -> None:
    refused = client.post("{ viewer { nonsense } }")
    assert refused.status_code == 400
    assert 'Cannot query field "nonsense" on type "User".' in refused.json()["errors"][0]["message"]
    fields = client.ask('{ __type(name: "Mutation") { fields { name } } }')["__type"]["fields"]
    assert "deployerCreateAgentKey" in {field["name"] for field in fields}


def test_plain_backend_hides_what_is_ours(plain_backend: ServedBackend) -> None:
    client = Client.of(plain_backend, "plain")
    for kind in ("Mutation", "Run", "Query"):
        fields = client.ask(f'{{ __type(name: "{kind}") {{ fields {{ name }} }} }}')["__type"]
        assert not [f for f in fields["fields"] if f["name"].startswith("deployer")]
    assert client.create_sweep(grid(x=[1]))


def test_a_grid_is_handed_out_once_each_to_three_agents(client: Client) -> None:
    sweep = client.create_sweep(grid(lr=[0.1, 0.2], layers=[1, 2, 3]))
    agents = [client.create_agent(sweep, f"host-{n}") for n in range(3)]
    seen = []
    while client.sweep(sweep)["state"] != "FINISHED":
        for agent in agents:
            command = client.work_once(agent, loss=1.0)
            if command:
                seen.append({name: part["value"] for name, part in command["args"].items()})
    expected = [{"layers": n, "lr": lr} for n in (1, 2, 3) for lr in (0.1, 0.2)]
    assert seen == expected
    assert [client.heartbeat(agent)[0]["type"] for agent in agents] == ["exit"] * 3
    found = client.sweep(sweep)
    assert (found["runCount"], found["runCountExpected"], found["bestLoss"]) == (6, 6, 1.0)


def test_a_run_whose_delivery_was_lost_comes_again_to_the_same_agent(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1, 2]))
    agent, other = client.create_agent(sweep), client.create_agent(sweep, "other")
    first = client.heartbeat(agent)[0]
    assert client.heartbeat(other)[0]["run_id"] != first["run_id"]
    assert client.heartbeat(agent) == [first]
    client.init_run(first["run_id"])
    assert client.heartbeat(agent, [first["run_id"]]) == []


def test_a_trainer_that_dies_before_init_rests_after_three_deliveries(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    agent = client.create_agent(sweep)
    deliveries = [client.heartbeat(agent)[0]["type"] for _ in range(3)]
    assert deliveries == ["run"] * 3
    assert client.heartbeat(agent) == []
    assert client.sweep(sweep)["runs"]["edges"][0]["node"]["state"] == "preempted"


def test_a_trainer_that_was_alive_and_never_called_init_rests(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    agent = client.create_agent(sweep)
    run = client.heartbeat(agent)[0]["run_id"]
    assert client.heartbeat(agent, [run]) == []
    assert client.heartbeat(agent) == []
    assert client.run(run)["state"] == "preempted"


@pytest.mark.parametrize(
    ("exit_code", "preempting", "stopped", "state"),
    [
        (0, False, False, "finished"),
        (1, False, False, "failed"),
        (255, False, False, "failed"),
        (255, False, True, "killed"),
        (1, True, False, "preempted"),
    ],
)
def test_exit_record_decides_the_state(
    client: Client, exit_code: int, preempting: bool, stopped: bool, state: str
) -> None:
    client.init_run("r")
    if preempting:
        client.stream("r", preempting=True)
        assert client.run("r")["state"] == "preempting"
    if stopped:
        client.ask(
            "mutation M($id: ID!) { stopRun(input: {id: $id}) { success } }",
            id=client.run("r")["id"],
        )
        assert client.stream("r").json() == {"stopped": True}
    client.finish("r", exit_code)
    assert (client.run("r")["state"], client.run("r")["exitcode"]) == (state, exit_code)


def test_chunks_may_come_twice_and_late(client: Client) -> None:
    client.init_run("r")
    rows = [{"_step": step, "loss": 1.0 / (step + 1)} for step in range(4)]
    client.log("r", rows[:2])
    client.log("r", rows[:2])
    client.log("r", rows[2:], offset=2)
    client.finish("r")
    client.finish("r")
    client.log("r", rows[2:], offset=2)
    run = client.run("r")
    assert [json.loads(line) for line in run["history"]] == rows
    assert (run["state"], run["historyLineCount"]) == ("finished", 4)


def test_nan_and_infinity_survive(client: Client) -> None:
    client.init_run("r")
    client.log("r", [{"_step": 0, "loss": math.nan, "top": math.inf}])
    run = client.run("r")
    assert math.isnan(json.loads(run["summaryMetrics"])["loss"])
    sampled = client.ask(
        "query Q($project: String!, $specs: [JSONString!]!)"
        '{ project(name: $project) { run(name: "r") { sampledHistory(specs: $specs) } } }',
        specs=[json.dumps({"keys": ["loss", "top"], "samples": 10})],
    )
    assert sampled["project"]["run"]["sampledHistory"] == [[{"loss": "NaN", "top": "Infinity"}]]


def test_a_repeated_creation_makes_one_sweep_until_an_agent_joins(client: Client) -> None:
    first = client.create_sweep(grid(x=[1]))
    assert client.create_sweep(grid(x=[1])) == first
    assert client.create_sweep(grid(x=[2])) != first
    client.heartbeat(client.create_agent(first))
    second = client.create_sweep(grid(x=[1]))
    assert second != first
    named = client.create_sweep(grid(x=[1]), mutation="a")
    assert named not in (first, second)
    assert client.create_sweep(grid(x=[1]), mutation="a") == named
    assert client.create_sweep(grid(x=[1]), mutation="b") != named


def test_sweep_states_steer_agents(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1, 2, 3]))
    agent = client.create_agent(sweep)
    run = client.heartbeat(agent)[0]["run_id"]
    client.init_run(run)
    client.set_state(sweep, "PAUSED")
    client.finish(run)
    assert client.heartbeat(agent) == []
    client.set_state(sweep, "RUNNING")
    second = client.heartbeat(agent)[0]["run_id"]
    client.init_run(second)
    client.set_state(sweep, "FINISHED")
    assert client.heartbeat(agent, [second]) == []
    client.finish(second)
    assert client.heartbeat(agent) == [{"type": "exit"}]
    late = client.create_agent(sweep, "late")
    assert client.heartbeat(late) == [{"type": "exit"}]


def test_what_cannot_run_is_refused_with_a_reason(client: Client) -> None:
    refused = client.post(
        UPSERT_SWEEP, config="method: grid\nparameters: {x: {min: 0.0, max: 1.0}}"
    )
    assert refused.status_code == 400
    assert "a grid needs values that can be counted" in refused.text
    assert client.post(UPSERT_SWEEP, config="[").status_code == 400
    local = {**grid(x=[1]), "controller": {"type": "local"}}
    refused = client.post(UPSERT_SWEEP, config=json.dumps(local))
    assert refused.status_code == 400
    assert "serves no local controller: leave out `controller`" in refused.text


def test_deleting_a_run_frees_its_configuration(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1, 2, 3]))
    agent = client.create_agent(sweep)
    names = [client.work_once(agent, loss=1.0)["run_id"] for _ in range(2)]  # type: ignore[index]
    client.ask(
        "mutation D($id: ID!) { deleteRun(input: {id: $id}) { clientMutationId } }",
        id=client.run(names[0])["id"],
    )
    again = client.work_once(agent, loss=1.0)
    assert again is not None
    assert again["args"] == {"x": {"value": 1}}


def test_poor_runs_are_stopped_as_hyperband_says(client: Client) -> None:
    rule = {"early_terminate": {"type": "hyperband", "min_iter": 1, "eta": 2}}
    sweep = client.create_sweep({**grid(x=[1, 2, 3]), **rule})
    runs = []
    for loss in (1.0, 2.0, 9.0):
        run = client.heartbeat(client.create_agent(sweep))[0]["run_id"]
        client.init_run(run)
        client.log(run, [{"_step": 0, "loss": loss}])
        runs.append(run)
    while client.stream(runs[2]).json() != {"stopped": True}:
        pass
    client.finish(runs[2], 255)
    assert client.run(runs[2])["state"] == "killed"
    assert client.stream(runs[0]).json() == {}


def test_an_agent_key_does_its_own_sweep_s_work_and_nothing_else(client: Client) -> None:
    mine, other = client.create_sweep(grid(x=[1, 2])), client.create_sweep(grid(x=[3]))
    make = (
        "mutation K($path: String!, $name: String!) { deployerCreateAgentKey("
        "input: {sweepPath: $path, agentName: $name}) { key } }"
    )
    path = f"{client.entity}/{client.project}/{mine}"
    keys = [
        client.ask(make, path=path, name=name)["deployerCreateAgentKey"]["key"]
        for name in ("a", "b")
    ]
    a, b = (Client(client.url, key, client.entity, client.project) for key in keys)
    agent = a.create_agent(mine)
    run = a.heartbeat(agent)[0]["run_id"]
    a.init_run(run)
    a.log(run, [{"_step": 0, "loss": 1.0}])
    assert b.stream(run, complete=True).status_code == 403
    assert b.post(RUN.replace("query Run", "query R"), name=run).status_code == 200
    tell = (
        "mutation R($run: String!) { deployerReportExit(input: {runName: $run, secondsAgo: 0.5,"
        ' exitcode: 1, output: "no data"}) { success } deployerLeave(input: {}) { success } }'
    )
    assert a.ask(tell, run=run)["deployerReportExit"]["success"]
    assert {node["node"]["state"] for node in client.sweep(mine)["agents"]["edges"]} == {"FINISHED"}
    with pytest.raises(AssertionError, match="only an agent's supervisor can report"):
        client.ask(tell, run=run)
    with pytest.raises(AssertionError, match="this agent's key is for another sweep"):
        a.create_agent(other)
    with pytest.raises(AssertionError, match="an agent's key cannot change sweeps"):
        a.create_sweep(grid(x=[5]))
    with pytest.raises(AssertionError, match="only for its own agent"):
        a.ask(make, path=path, name="c")
    with pytest.raises(AssertionError, match="is not agent"):
        b.heartbeat(agent)
    a.finish(run)
    assert client.run(run)["state"] == "finished"


def test_a_restart_keeps_port_data_and_work(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("restart") / "data"
    served = serve_backend(data)
    client = Client.of(served, "restart")
    sweep = client.create_sweep(grid(x=[1, 2]))
    agent = client.create_agent(sweep)
    run = client.heartbeat(agent)[0]["run_id"]
    client.init_run(run)
    served.kill()
    again = serve_backend(data)
    try:
        assert (again.url, again.key) == (served.url, served.key)
        assert client.heartbeat(agent, [run]) == []
        client.finish(run)
        assert client.run(run)["state"] == "finished"
    finally:
        again.end()


def test_every_resolver_is_of_a_field_that_the_schema_has() -> None:
    types = build_schema(plain=False).type_map
    for place in (place for part in PARTS for place in part.resolvers.by_place):
        kind, _, field = place.partition(".")
        named = types[kind]
        assert isinstance(named, GraphQLObjectType)
        assert field in named.fields, place
