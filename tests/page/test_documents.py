"""Documents made of a server's answers alone, as those of a sweep on W&B are."""

from __future__ import annotations

import json
import math
from typing import Any

from deployer.model import Run, Sweep, SweepPath
from deployer.page.run_document import RunSource, build_comparison, build_run_document
from deployer.page.strict_json import Encoded, encode_values, to_strict_json
from deployer.page.sweep_document import Cells, SweepSource, build_sweep_document, build_sweep_table
from deployer.sweeps.results import build_results

PATH = SweepPath("e", "p", "s")
CONFIG = {
    "program": "train.py",
    "method": "random",
    "metric": {"name": "loss", "goal": "minimize"},
    "parameters": {
        "lr": {"distribution": "log_uniform_values", "min": 1e-4, "max": 0.1},
        "epochs": {"value": 3},
    },
}


def make_run(number: int, state: str, **summary: Any) -> Run:
    config = {"lr": 0.01 * number, "epochs": 3}
    return Run(f"r{number}", "", state, config, summary, 0, 100.0, 100.0 + number)


def make_document(*runs: Run) -> dict[str, Any]:
    sweep = Sweep(PATH, "", "a sweep", "RUNNING", CONFIG, len(runs), 4, 50.0)
    source = SweepSource(sweep, runs, build_results(sweep, runs), (), 200.0)
    document: dict[str, Any] = json.loads(to_strict_json(build_sweep_document(source)))
    return document


def test_a_sweep_on_any_server_has_its_document() -> None:
    document = make_document(
        make_run(1, "finished", loss=2.0, acc=0.5, _step=3),
        make_run(2, "finished", loss=1.0, nested={"x": 1}),
        make_run(3, "running", loss=math.nan),
    )
    rows = [dict(zip(document["fields"], row, strict=True)) for row in document["runs"]]
    assert [(row["id"], row["rank"], row["value"]) for row in rows] == [
        ("r2", 1, 1.0),
        ("r1", 2, 2.0),
        ("r3", None, "NaN"),
    ]
    assert (document["columns"], document["fixed"]) == (["lr"], {"epochs": 3})
    assert document["metrics"] == ["acc", "nested.x"]
    assert [row["metrics"] for row in rows] == [[None, 1], [0.5, None], [None, None]]
    assert [(axis["name"], axis["scale"]) for axis in document["axes"]] == [
        ("lr", "log"),
        ("loss", "linear"),
    ]
    assert document["best_so_far"]["runs"] == ["r1", "r2"]
    assert document["best_so_far"]["best"] == [2.0, 1.0]
    assert document["command"] == "python train.py --lr=0.02 --epochs=3"
    assert document["actions"] == []


def test_runs_that_are_kept_encoded_make_the_same_document() -> None:
    runs = [make_run(n, "finished", loss=float(n), acc=n, text="x") for n in (1, 2)]
    cells = Cells()
    for loss in (3.0, math.inf):
        runs[0] = make_run(1, "finished", loss=loss, other={"deep": 1})
        sweep = Sweep(PATH, "", "a sweep", "RUNNING", CONFIG, len(runs), 4, 50.0)
        source = SweepSource(sweep, runs, build_results(sweep, runs), (), 200.0)
        table = to_strict_json(build_sweep_table(source, cells))
        assert json.loads(table) == json.loads(to_strict_json(build_sweep_table(source)))


def test_a_sweep_without_runs_has_its_document() -> None:
    document = make_document()
    assert (document["runs"], document["best"], document["command"]) == ([], None, None)
    assert document["ends_at"] is None


def test_a_run_and_a_comparison_of_any_server() -> None:
    one, other = make_run(1, "finished", loss=2.0), make_run(2, "failed", loss=1.0)
    history = [{"_step": 0, "epoch": 0, "loss": 3.0}, {"_step": 5, "epoch": 1, "loss": 2.0}]
    run = build_run_document(RunSource(PATH, "e", "p", one, "a sweep", history=history))
    [loss, _] = run["curves"]
    assert loss == {"metric": "loss", "steps": [0, 5], "values": [3.0, 2.0], "epochs": [0, 1]}
    assert run["sweep"] == {"id": "s", "title": "a sweep"}
    compared = build_comparison("e", "p", [one, other], ["loss"])
    assert [row["name"] for row in compared["config"] if not row["same"]] == ["lr"]


def test_what_is_encoded_once_is_the_same_document() -> None:
    document = {"a": [1, math.inf, {"b": 2**60}], "c": None}
    encoded = encode_values(document)
    assert all(isinstance(value, Encoded) for value in encoded.values())
    assert to_strict_json(encoded) == to_strict_json(document)
    assert json.loads(to_strict_json(encoded)) == {
        "a": [1, "Infinity", {"b": str(2**60)}],
        "c": None,
    }
