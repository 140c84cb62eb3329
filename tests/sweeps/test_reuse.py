"""`up --reuse`: which configurations count as done, and that every reader counts the same ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployer.errors import ConfigError
from deployer.model import Run, Sweep, SweepPath
from deployer.sweeps.configuration_list import list_configurations
from deployer.sweeps.rerun import add_reused, count_reused, plan_reuse
from deployer.sweeps.results import build_results
from deployer.sweeps.sweep_file import SweepFile, dump_config, parse_sweep
from deployer.wandb_api.model import Snapshot

PATH = SweepPath("me", "digits", "old00000")


def parse(lrs: list[float], **more: Any) -> SweepFile:
    nested = {"parameters": {"name": {"value": "sgd"}}}
    parameters = {"lr": {"values": lrs}, "optimizer": nested}
    metric = {"name": "loss", "goal": "minimize"}
    config = {"program": "train.py", "method": "grid", "metric": metric, "parameters": parameters}
    return parse_sweep(dump_config({**config, **more}), "grid.yaml")


def build_snapshot(config: dict[str, Any], path: SweepPath, runs: tuple[Run, ...]) -> Snapshot:
    expected = parse_sweep(dump_config(config), "x").expected
    description = str(config.get("description", ""))
    info = Sweep(path, "", "", "FINISHED", config, len(runs), expected, 0.0, description)
    return Snapshot(info, runs, ())


def build_run(run_id: str, config: dict[str, Any], loss: float, state: str = "finished") -> Run:
    return Run(run_id, run_id, state, config, {"loss": loss}, 0, 1.0, 2.0)


def configure(lr: float) -> dict[str, Any]:
    return {"lr": lr, "optimizer": {"name": "sgd"}}


def build_source() -> Snapshot:
    runs = (build_run("a", configure(1), 0.1), build_run("b", configure(2), 0.5, "failed"))
    return build_snapshot(parse([1, 2]).config, PATH, runs)


def test_what_another_sweep_has_finished_counts_once_and_is_named() -> None:
    source = build_source()
    found = plan_reuse(parse([1.0, 2.0, 3.0]), "grid.yaml", source)
    assert (found.reused, found.expected) == (1, 3)
    assert list_configurations(found.config) == [configure(2.0), configure(3.0)]
    assert (found.config["entity"], found.config["project"]) == ("me", "digits")

    listed = list_configurations(found.config)
    runs = tuple(build_run(f"n{i}", {"configuration": c}, 0.3) for i, c in enumerate(listed))
    fresh = build_snapshot(found.config, PATH._replace(sweep_id="new00000"), runs)
    assert count_reused(fresh.sweep) == 1
    whole = add_reused(fresh, source)
    results = build_results(whole.sweep, whole.runs)
    said = "3/3 configurations finished, 0 duplicates, 0 lost, 1 reused"
    assert results.coverage.sentence() == said
    best = results.best
    assert best
    assert (best.run_id, best.note) == ("a", "reused from me/digits/old00000")
    assert best.parameters == {"lr": 1, "optimizer.name": "sgd"}

    # A third sweep takes over what both have: each run keeps the sweep that ran it.
    third = plan_reuse(parse([1, 2, 3, 4]), "grid.yaml", whole)
    again = add_reused(build_snapshot(third.config, PATH, ()), whole)
    assert [run.reused.rpartition("/")[2] for run in again.runs] == [
        *("new00000", "new00000", "old00000")
    ]


def test_what_cannot_be_reused_honestly_is_refused() -> None:
    source = build_source()
    grid = parse([1, 2, 3])
    open_ = replace(source, sweep=replace(source.sweep, state="RUNNING"))
    early = {"type": "hyperband", "min_iter": 3}
    refused = {
        "draws its configurations": (parse([1, 2], method="random", run_cap=2), source),
        "compares runs": (parse([1, 2], early_terminate=early), source),
        "is RUNNING": (grid, open_),
        "program: differs": (parse([1, 2], program="other.py"), source),
        "command: differs": (parse([1, 2], command=["python", "x.py", "${args}"]), source),
        "not finished any configuration": (parse([7, 8]), source),
        "finished all 1": (parse([1]), source),
    }
    for said, (sweep, snapshot) in refused.items():
        with pytest.raises(ConfigError, match=said):
            plan_reuse(sweep, "grid.yaml", snapshot)
