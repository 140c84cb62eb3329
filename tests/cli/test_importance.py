"""`deployer importance`, on runs of the embedded backend whose truth is known."""

from __future__ import annotations

import json

import pytest

from deployer.analysis.importance import Importance, build_importance
from deployer.cli.results import show_importance
from tests.analysis.rows import draw_rows
from tests.backend.client import Client as Sdk
from tests.backend.client import grid
from tests.cli.conftest import Project
from tests.conftest import ServedBackend


@pytest.fixture(scope="module")
def found() -> Importance:
    """Compute one importance for all that shows it."""
    return build_importance(draw_rows(60, lambda parameters, _: parameters["dropout"]), "loss")


def test_table_and_sentence(found: Importance, capsys: pytest.CaptureFixture[str]) -> None:
    show_importance(found, "me/p/s", "table")
    said = capsys.readouterr()
    head, first, *_, sentence = said.out.splitlines()
    assert head.split() == ["PARAMETER", "IMPORTANCE", "CORRELATION", "RUNS"]
    assert first.split()[0] == "dropout"
    assert first.split()[-2:] == ["1", "60"]
    assert sentence == "dropout is the most important of 5 parameters for loss in 60 runs"


def test_json_has_every_figure(found: Importance, capsys: pytest.CaptureFixture[str]) -> None:
    show_importance(found, "me/p/s", "json")
    plain = json.loads(capsys.readouterr().out)
    assert (plain["sweep"], plain["runs"], plain["sentence"]) == ("me/p/s", 60, found.sentence())
    assert set(plain["parameters"][0]) == {"name", "importance", "correlation", "runs"}


def test_command_reads_a_sweep_and_another_metric(project: Project, backend: ServedBackend) -> None:
    sdk = Sdk.of(backend, "importance")
    sweep = sdk.create_sweep(
        {**grid(x=list(range(6)), y=[1, 2]), "metric": {"name": "loss", "goal": "minimize"}}
    )
    agent = sdk.create_agent(sweep)
    for _ in range(12):
        (command,) = sdk.heartbeat(agent)
        x = command["args"]["x"]["value"]
        sdk.init_run(command["run_id"], config=json.dumps(command["args"]))
        sdk.log(command["run_id"], [{"_step": 0, "loss": 2.0 * x, "other": float("nan")}])
        sdk.finish(command["run_id"])
    path = f"{sdk.entity}/importance/{sweep}"
    plain = json.loads(project.run("importance", path, "-o", "json", **backend.environment).stdout)
    assert plain["parameters"][0]["name"] == "x"
    assert plain["parameters"][0]["correlation"] == pytest.approx(1)
    said = project.run("importance", path, **backend.environment).stdout
    assert said.splitlines()[-1] == plain["sentence"]
    for name, words in (("other", "is NaN or infinite in 12"), ("val_loss", "did you mean loss?")):
        done = project.run("importance", path, "--metric", name, code=3, **backend.environment)
        assert words in done.stderr
