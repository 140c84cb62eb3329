"""Heal: what is missing, a follow-up that is made once, and both counted together."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from deployer.model import SweepPath
from deployer.sweeps.rerun import get_full_snapshot, heal_sweep
from deployer.sweeps.results import Coverage, build_results
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import get_sweep, get_viewer, list_sweeps
from deployer.wandb_api.server import Server
from tests.backend.client import Client as Sdk
from tests.backend.client import grid
from tests.conftest import ServedBackend


def connect(served: ServedBackend) -> tuple[Server, Sdk]:
    """Connect as a user, and as an agent and its runs in a project of the test's own."""
    client = Client(served.url, served.key)
    sdk = Sdk.of(served, f"heal-{uuid.uuid4().hex[:8]}")
    return Server(client, get_viewer(client), embedded=False), sdk


def work(sdk: Sdk, sweep: str, *exit_codes: int) -> list[dict[str, Any]]:
    """Run a sweep's next runs with these exit codes; return the arguments of each."""
    agent = sdk.create_agent(sweep)
    given = []
    for code in exit_codes:
        (command,) = sdk.heartbeat(agent)
        name = command["run_id"]
        # As the SDK does: the trainer's own flags are added to the sweep's.
        sdk.init_run(name, config=json.dumps({**command["args"], "own": {"value": 1}}))
        sdk.log(name, [{"_step": 0, "loss": 1.0}])
        sdk.finish(name, code)
        given.append({k: v["value"] for k, v in command["args"].items()})
    return given


def coverage(server: Server, path: SweepPath) -> Coverage:
    snapshot = get_full_snapshot(server, path)
    return build_results(snapshot.sweep, snapshot.runs).coverage


def test_a_closed_grid_gets_exactly_what_is_missing(plain_backend: ServedBackend) -> None:
    server, sdk = connect(plain_backend)
    sweep = sdk.create_sweep({**grid(lr=[0.1, 0.2, 0.3], size=[1, 2]), "retries": 0})
    path = SweepPath(sdk.entity, sdk.project, sweep)
    done = work(sdk, sweep, 0, 7, 0)
    sdk.set_state(sweep, "FINISHED")
    assert coverage(server, path).sentence() == (
        "2/6 configurations finished, 0 duplicates, 3 lost, 1 failed"
    )

    healing = heal_sweep(server, path)
    assert (healing.count, healing.unknown, healing.created) == (4, 0, True)
    again = heal_sweep(server, path)
    assert (again.sweep_path, again.count, again.created) == (healing.sweep_path, 0, False)
    info = get_sweep(server.client, healing.sweep_path)
    assert info.description == f"deployer heal of {path}"
    assert info.expected == 4
    assert len(list_sweeps(server.client, sdk.entity, sdk.project)) == 2

    first = work(sdk, healing.sweep_path.sweep_id, 0, 0)
    assert coverage(server, path).sentence() == (
        "4/6 configurations finished, 0 duplicates, 0 lost, 1 healed, 2 queued"
    )
    rest = work(sdk, healing.sweep_path.sweep_id, 0, 0)
    listed = [c["configuration"] for c in first + rest]
    assert done[1] in listed
    assert not [c for c in listed if c in (done[0], done[2])]
    whole = coverage(server, path)
    assert whole.complete
    assert whole.sentence() == "6/6 configurations finished, 0 duplicates, 0 lost, 1 healed"
    assert heal_sweep(server, path).sweep_path == path
    rows = build_results(*_parts(server, path)).rows
    assert {tuple(row.parameters) for row in rows} == {("lr", "size")}


def _parts(server: Server, path: SweepPath) -> tuple[Any, Any]:
    snapshot = get_full_snapshot(server, path)
    return snapshot.sweep, snapshot.runs


def test_what_failed_in_a_follow_up_gets_another(plain_backend: ServedBackend) -> None:
    server, sdk = connect(plain_backend)
    sweep = sdk.create_sweep({**grid(lr=[0.1, 0.2]), "retries": 0})
    path = SweepPath(sdk.entity, sdk.project, sweep)
    work(sdk, sweep, 0, 7)
    first = heal_sweep(server, path)
    assert first.count == 1
    work(sdk, first.sweep_path.sweep_id, 7, 7)  # a server of ours tries a second time by itself
    second = heal_sweep(server, path)
    assert second.created
    assert second.sweep_path not in (path, first.sweep_path)
    work(sdk, second.sweep_path.sweep_id, 0)
    assert coverage(server, path).sentence() == (
        "2/2 configurations finished, 0 duplicates, 0 lost, 1 healed"
    )


def test_a_list_is_healed_by_a_shorter_list(plain_backend: ServedBackend) -> None:
    server, sdk = connect(plain_backend)
    chosen = [{"lr": 0.1}, {"lr": 0.2}, {"lr": 0.3}]
    sweep = sdk.create_sweep({**grid(mine=chosen), "command": ["run", "${args_json}"]})
    path = SweepPath(sdk.entity, sdk.project, sweep)
    (done,) = work(sdk, sweep, 0)
    sdk.set_state(sweep, "FINISHED")
    healing = heal_sweep(server, path)
    assert heal_sweep(server, path).sweep_path == healing.sweep_path
    assert get_sweep(server.client, healing.sweep_path).config["command"][0] == "run"
    rest = work(sdk, healing.sweep_path.sweep_id, 0, 0)
    assert [c["mine"] for c in (done, *rest)] == chosen
    assert coverage(server, path).complete


def test_healing_a_follow_up_heals_its_original(plain_backend: ServedBackend) -> None:
    server, sdk = connect(plain_backend)
    sweep = sdk.create_sweep(grid(lr=[0.1, 0.2]))
    path = SweepPath(sdk.entity, sdk.project, sweep)
    sdk.set_state(sweep, "FINISHED")
    first = heal_sweep(server, path).sweep_path
    sdk.set_state(first.sweep_id, "CANCELED")
    second = heal_sweep(server, first)
    assert (second.count, second.created) == (2, True)
    assert get_sweep(server.client, second.sweep_path).description.endswith(str(path))


def test_of_a_random_sweep_the_failed_draws_run_again(plain_backend: ServedBackend) -> None:
    server, sdk = connect(plain_backend)
    config = {
        **grid(lr=[0.1, 0.2, 0.3, 0.4], size=list(range(5000))),  # no draw is like another
        "method": "random",
        "run_cap": 4,
        "retries": 0,
    }
    sweep = sdk.create_sweep(config)
    path = SweepPath(sdk.entity, sdk.project, sweep)
    done = work(sdk, sweep, 0, 7, 0)
    sdk.set_state(sweep, "FINISHED")
    healing = heal_sweep(server, path)
    assert (healing.count, healing.unknown) == (1, 1)  # the fourth was never drawn
    assert work(sdk, healing.sweep_path.sweep_id, 0) == [{"configuration": done[1]}]
    assert coverage(server, path).sentence() == (
        "3/4 configurations finished, 0 duplicates, 1 lost, 1 healed"
    )


def test_an_open_grid_still_hands_out_what_it_never_did(plain_backend: ServedBackend) -> None:
    server, sdk = connect(plain_backend)
    sweep = sdk.create_sweep({**grid(lr=[0.1, 0.2, 0.3]), "retries": 0})
    path = SweepPath(sdk.entity, sdk.project, sweep)
    work(sdk, sweep, 7)
    assert heal_sweep(server, path).count == 1
    work(sdk, sweep, 0, 0)
    assert heal_sweep(server, path).count == 0


def test_the_embedded_backend_hands_out_again_itself(backend: ServedBackend) -> None:
    server, sdk = connect(backend)
    sweep = sdk.create_sweep({**grid(lr=[0.1, 0.2]), "retries": 0})
    path = SweepPath(sdk.entity, sdk.project, sweep)
    work(sdk, sweep, 0, 7)
    assert get_sweep(server.client, path).state == "FINISHED"
    healing = heal_sweep(server, path)
    assert (healing.sweep_path, healing.count, healing.created) == (path, 1, False)
    assert coverage(server, path).sentence() == (
        "1/2 configurations finished, 0 duplicates, 0 lost, 1 queued"
    )
    work(sdk, sweep, 0)
    assert coverage(server, path).sentence() == (
        "2/2 configurations finished, 0 duplicates, 0 lost"
    )
    assert heal_sweep(server, path).count == 0
    causes = [[a.cause for a in run.attempts] for run in get_full_snapshot(server, path).runs]
    assert causes == [["finished"], ["own failure", "finished"]]


@pytest.mark.parametrize("value", [1e-05, 3.0, True, None, "008", [1, 2.0]])
def test_values_come_back_as_they_were(plain_backend: ServedBackend, value: Any) -> None:
    server, sdk = connect(plain_backend)
    sweep = sdk.create_sweep({**grid(a=[value, "other"]), "retries": 0})
    path = SweepPath(sdk.entity, sdk.project, sweep)
    sdk.set_state(sweep, "FINISHED")
    healing = heal_sweep(server, path)
    found = work(sdk, healing.sweep_path.sweep_id, 0, 0)
    values = [json.dumps(c["configuration"]["a"]) for c in found]
    assert values == [json.dumps(value), '"other"']
