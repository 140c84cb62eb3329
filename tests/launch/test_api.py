"""What the Python API does itself: refuse wrong values, and whatever concerns other people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deployer import api
from deployer.errors import AgentError, ConfigError, WandbError
from deployer.wandb_api.server import Server
from tests.backend.client import Client, grid
from tests.conftest import ServedBackend


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"replicas": 0}, "replicas: 0 is below 1"),
        ({"replicas": "two"}, "replicas: 'two' is not a whole number"),
        ({"replicas": True}, "replicas: True is not a whole number"),
        ({"run_cap": -1}, "run_cap: -1 is below 1"),
        ({"retries": -1}, "retries: -1 is below 0"),
    ],
)
def test_a_wrong_number_is_refused_by_its_name(arguments: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        api.up("missing.yaml", **arguments)


def test_a_sweep_that_up_refuses_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = "program: train.py\nmethod: grid\nparameters: {lr: {values: [1, 2]}}\n"
    (tmp_path / "sweep.yaml").write_text(sweep)
    server: Any = None  # it is not asked
    with pytest.raises(ConfigError, match=r"train\.py: file not found"):
        api.create_sweep(server, "sweep.yaml")
    script = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--rate')\np.parse_args()"
    )
    (tmp_path / "train.py").write_text(f"import wandb\n{script}\n")
    with pytest.raises(ConfigError, match="--lr"):
        api.create_sweep(server, "sweep.yaml")


def connect(served: ServedBackend, monkeypatch: pytest.MonkeyPatch) -> Server:
    for name, value in served.environment.items():
        monkeypatch.setenv(name, value)
    return api.connect()


def test_a_sweep_of_ones_own_is_steered_and_deleted(
    tmp_path: Path, backend: ServedBackend, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "sweep.yaml").write_text(
        "program: train.py\nproject: api-own\nmethod: grid\nparameters: {lr: {values: [1, 2]}}\n"
    )
    server = connect(backend, monkeypatch)
    path = api.create_sweep(server, "sweep.yaml", check_script=False)
    assert api.agents(path) == api.agents() == []
    api.pause(server, path)
    assert api.results(server, path).state == "PAUSED"
    api.resume(server, path)
    api.stop(server, path)
    assert api.results(server, path).state == "FINISHED"
    with pytest.raises(WandbError, match="is FINISHED and cannot become PAUSED") as ended:
        api.pause(server, path)
    assert ended.value.hint == "deployer up FILE --new creates another sweep"
    api.delete(server, path)
    changes = [line for line in told if line.startswith(path)]
    assert changes == [f"{path} is {one}" for one in ("PAUSED", "RUNNING", "FINISHED", "deleted")]
    for gone in (api.logs(server, path), api.logs(server, path, run="none")):
        with pytest.raises(WandbError):
            next(gone)


def test_what_concerns_others_must_be_sure(
    backend: ServedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, sdk = connect(backend, monkeypatch), Client.of(backend, "api-others")
    sweep = sdk.create_sweep(grid(x=[1, 2]))
    sdk.init_run(sdk.heartbeat(sdk.create_agent(sweep))[0]["run_id"])
    path = f"{sdk.entity}/api-others/{sweep}"
    others = "1 agent started elsewhere working on it"
    elsewhere = f"{path} was made by {sdk.entity} elsewhere"
    for steer, said in ((api.pause, others), (api.stop, f"{others}; {elsewhere}")):
        with pytest.raises(ConfigError) as refused:
            steer(server, path)
        assert refused.value.message == f"sure: is False, and {said}"
        assert refused.value.hint == "pass sure=True if you mean it"
    for sure in (False, True):
        with pytest.raises(AgentError, match="agents of other users may be working on it"):
            api.delete(server, path, sure=sure)
    assert sdk.sweep(sweep)["state"] == "RUNNING"
    for steer, state in ((api.pause, "PAUSED"), (api.resume, "RUNNING"), (api.stop, "FINISHED")):
        steer(server, path, sure=True)
        assert sdk.sweep(sweep)["state"] == state
    with pytest.raises(ConfigError, match=f"sure: is False, and .*{elsewhere}"):
        api.delete(server, path)
    api.delete(server, path, sure=True)
    assert sdk.sweep(sweep) is None


def test_rows_are_flat_and_complete(
    backend: ServedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, sdk = connect(backend, monkeypatch), Client.of(backend, "api-rows")
    metric = {"metric": {"name": "loss", "goal": "minimize"}}
    sweep = sdk.create_sweep({**grid(x=[1, 2], state=["a"], api_key=["hunter2"]), **metric})
    agent = sdk.create_agent(sweep)
    for loss in (0.5, 0.25):
        [command] = sdk.heartbeat(agent)
        sdk.init_run(command["run_id"], config=json.dumps(command["args"]))
        sdk.log(command["run_id"], [{"_step": 0, "loss": loss, "accuracy": 1 - loss}])
        sdk.finish(command["run_id"])
    found = api.results(server, f"{sdk.entity}/api-rows/{sweep}")
    first, second = found.rows()
    assert [*first] == [*second]
    assert first.keys() >= vars(found.runs[0]).keys() - {"parameters", "summary", "word"}
    assert (first["rank"], first["value"], first["loss"]) == (1, 0.25, 0.25)
    assert (second["rank"], second["x"], second["summary.accuracy"]) == (2, 1, 0.5)
    assert (first["state"], first["config.state"], first["api_key"]) == (
        "finished",
        "a",
        "REDACTED",
    )
    assert json.loads(json.dumps(first)) == {**first, "apart": []}
    assert (first["attempts"], found.best) == (1, found.runs[0])


def test_a_log_is_of_agents_or_of_a_run() -> None:
    server: Any = None  # it is not asked
    with pytest.raises(ConfigError, match="run: cannot be combined with agents"):
        api.logs(server, "e/p/s", agents=["s-a1"], run="r")
