"""The command that runs the best configuration again: of grids and of lists, without secrets."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from deployer.model import Run, Sweep, SweepPath
from deployer.sweeps.results import build_results
from deployer.sweeps.run_rows import build_run_command
from deployer.sweeps.set_files import HyperparameterSets, build_sweep_config

METRIC = {"name": "loss", "goal": "minimize"}


def describe(config: dict[str, Any], *chosen: dict[str, Any]) -> str | None:
    sweep = Sweep(SweepPath("e", "p", "s"), "n", "t", "FINISHED", config, 1, None, 1.0)
    runs = [
        Run(f"r{n}", "", "finished", one, {"loss": float(n)}, 0, 1.0, 2.0)
        for n, one in enumerate(chosen)
    ]
    return build_run_command(build_results(sweep, runs))


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (None, "python train.py --lr=0.1 '--name=a b'"),
        (
            ["${env}", "${interpreter}", "${program}", "${args}"],
            "python train.py --lr=0.1 '--name=a b'",
        ),
        (["${env}", "A=1", "python", "train.py"], "/usr/bin/env A=1 python train.py"),
        (["torchrun", "train.py", "${args_no_hyphens}"], "torchrun train.py lr=0.1 'name=a b'"),
    ],
)
def test_it_is_what_an_agent_starts(command: list[str] | None, line: str) -> None:
    parameters = {"lr": {"values": [0.1, 0.2]}, "name": {"value": "a b"}}
    config = {"program": "train.py", "method": "grid", "metric": METRIC, "parameters": parameters}
    config |= {"command": command} if command else {}
    said = describe(config, {"lr": 0.1, "name": "a b"}, {"lr": 0.2, "name": "a b"})
    assert said == f"deployer run -- {line}"


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_set_of_a_list_is_written_as_flags_or_by_its_number(wrapped: bool) -> None:
    sets = ({"lr": 0.1, "width": 8}, {"lr": 0.2, "width": 16})
    found = HyperparameterSets(sets, wrapped)
    config = build_sweep_config(found, "sets.yml", "main.py", "loss", "minimize")
    [(listed, form)] = config["parameters"].items()
    said = describe(config, *({listed: value} for value in form["values"]))
    assert said is not None
    words = shlex.split(said.removeprefix("deployer run -- "))
    number = "JOB_ID=1" in words
    assert number
    assert words[-1] == ("main.py" if wrapped else "--width=8")
    assert not [word for word in words if "{" in word or "json" in word]


def test_it_shows_no_secret_and_nothing_without_a_best_run() -> None:
    parameters = {"api_key": {"value": "hunter2-xyz"}, "lr": {"values": [1]}}
    config = {"program": "t.py", "method": "grid", "metric": METRIC, "parameters": parameters}
    said = describe(config, {"api_key": "hunter2-xyz", "lr": 1})
    assert said == "deployer run -- python t.py --api_key=REDACTED --lr=1"
    assert describe(config) is None
