"""What people do to a sweep at work: cancel, delete, rename, update, add prior runs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from deployer.backend.scheduling.sweep_control import change_sweep
from tests.backend.bench import Bench
from tests.backend.client import UPSERT_SWEEP, Client, grid
from tests.conftest import ServedBackend

DELETE = """
mutation D($path: String!) { deployerDeleteSweep(input: {sweepPath: $path}) { success } }
"""
RENAME = """
mutation R($id: ID, $displayName: String) { upsertSweep(input: {id: $id, displayName: $displayName})
  { sweep { displayName } } }
"""
PRIOR_RUNS = """
query P($project: String!, $sweep: String!) { project(name: $project) {
  sweep(sweepName: $sweep) { priorRuns { edges { node { name } } } } } }
"""
WITH_PRIOR_RUNS = """
mutation P($project: String, $config: String, $filters: JSONString)
{ upsertSweep(input: {projectName: $project, config: $config, priorRunsFilters: $filters})
  { sweep { name } configValidationWarnings } }
"""
AGENTS = 64


def start_run(client: Client, agent: str) -> str:
    name: str = client.heartbeat(agent)[0]["run_id"]
    client.init_run(name)
    return name


def values_of_x(client: Client, agent: str, count: int) -> list[Any]:
    done = [client.work_once(agent, loss=1.0) for _ in range(count)]
    return [run["args"]["x"]["value"] for run in done if run]


def update(client: Client, sweep: str, config: dict[str, Any]) -> None:
    client.ask(UPSERT_SWEEP, id=client.sweep(sweep)["id"], config=yaml.safe_dump(config))


def cancel(client: Client, sweep: str) -> None:
    client.set_state(sweep, "CANCELED")


def delete(client: Client, sweep: str) -> None:
    client.ask(DELETE, path=f"{client.entity}/{client.project}/{sweep}")


@pytest.mark.parametrize("end", [cancel, delete])
def test_runs_of_an_ended_sweep_may_flush_before_their_agent_leaves(
    backend: ServedBackend, end: Callable[[Client, str], None]
) -> None:
    client = Client.of(backend, f"ended-by-{end.__name__}")
    sweep = client.create_sweep(grid(x=[1, 2]))
    agent = client.create_agent(sweep)
    run = start_run(client, agent)
    end(client, sweep)
    assert client.heartbeat(agent, [run]) == []
    assert client.stream(run).json() == {"stopped": True}
    client.finish(run, 255)
    assert client.heartbeat(agent) == [{"type": "exit"}]
    assert client.run(run)["state"] == "killed"


def test_a_run_that_does_not_heed_a_cancelled_sweep_is_killed(bench: Bench) -> None:
    sweep = bench.sweep()
    agent = bench.agent(sweep)
    run = bench.take(agent)
    with bench.backend.store.transaction() as db:
        change_sweep(bench.backend, db, sweep, state="CANCELED")
    assert bench.beat(agent, run) == {"type": "wait"}
    bench.seconds += bench.backend.patience.graceful_stop_seconds
    assert bench.beat(agent, run) == {"type": "exit"}
    assert bench.run(run).state == "killed"


def test_a_deleted_sweep_is_gone_and_its_runs_stay(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1, 2]))
    agent = client.create_agent(sweep)
    done = client.work_once(agent, loss=1.0)
    delete(client, sweep)
    assert client.sweep(sweep) is None
    assert client.run((done or {})["run_id"])["state"] == "finished"
    assert client.heartbeat(agent) == [{"type": "exit"}]
    assert client.create_sweep(grid(x=[1, 2])) != sweep


def test_renaming_changes_nothing_else(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    row = client.sweep(sweep)
    renamed = client.ask(RENAME, id=row["id"], displayName="better")["upsertSweep"]
    assert renamed["sweep"] == {"displayName": "better"}
    assert client.sweep(sweep) == row


def test_an_updated_grid_runs_what_is_new_and_nothing_twice(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1, 2, 3]))
    agent = client.create_agent(sweep)
    assert values_of_x(client, agent, 2) == [1, 2]
    update(client, sweep, grid(x=[0, 2, 3, 4]))
    assert client.sweep(sweep)["runCountExpected"] == 4
    assert values_of_x(client, agent, 9) == [0, 3, 4]
    found = client.sweep(sweep)
    assert (found["state"], found["runCount"]) == ("FINISHED", 5)


def test_prior_runs_belong_to_the_sweep_and_are_not_repeated(client: Client) -> None:
    client.ask(UPSERT_SWEEP, config=yaml.safe_dump(grid(x=[9])))
    for name, x in (("old-a", 2), ("old-b", 7)):
        client.init_run(name, config=f'{{"x": {{"value": {x}}}}}')
        client.log(name, [{"_step": 0, "loss": float(x)}])
        client.finish(name)
    filters = '{"$or": [{"name": "old-a"}, {"name": "old-b"}]}'
    config = yaml.safe_dump(grid(x=[1, 2, 3]))
    sweep = client.ask(WITH_PRIOR_RUNS, config=config, filters=filters)["upsertSweep"]
    name = sweep["sweep"]["name"]
    assert values_of_x(client, client.create_agent(name), 9) == [1, 3]
    found = client.sweep(name)
    assert (found["state"], found["runCount"], found["bestLoss"]) == ("FINISHED", 4, 1.0)
    prior = client.ask(PRIOR_RUNS, sweep=name)["project"]["sweep"]["priorRuns"]["edges"]
    assert sorted(edge["node"]["name"] for edge in prior) == ["old-a", "old-b"]
    again = client.ask(WITH_PRIOR_RUNS, config=config, filters=filters)["upsertSweep"]
    assert (
        "run old-a belongs to another sweep and cannot be moved"
        in again["configValidationWarnings"]
    )


def test_a_grid_is_exact_with_64_agents_asking_at_once(client: Client) -> None:
    sweep = client.create_sweep(grid(x=list(range(20)), y=["a", "b", "c", "d", "e"]))
    agents = [client.create_agent(sweep, f"host-{n}") for n in range(AGENTS)]

    def work(agent: str) -> list[tuple[Any, Any]]:
        done = []
        while command := client.work_once(agent, loss=1.0):
            done.append((command["args"]["x"]["value"], command["args"]["y"]["value"]))
        return done

    with ThreadPoolExecutor(AGENTS) as pool:
        done = [pair for pairs in pool.map(work, agents) for pair in pairs]
    assert sorted(done) == [(x, y) for x in range(20) for y in "abcde"]
    assert client.sweep(sweep)["state"] == "FINISHED"


def test_keys_that_nobody_reads_are_warned_about(client: Client) -> None:
    config = {**grid(x=[1]), "run_capp": 3, "retries": 2, "seed": 1}
    config["metric"] = {"name": "loss", "gaol": "maximize"}
    made = client.ask(UPSERT_SWEEP, config=yaml.safe_dump(config))["upsertSweep"]
    first, second = sorted(made["configValidationWarnings"])
    assert first.startswith("metric.gaol: ")
    assert second.startswith("run_capp: ")
    assert "run_cap" in second
