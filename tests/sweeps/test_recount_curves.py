"""When equal curves of configurations say that a script ignores its flags."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from deployer.model import Run, Sweep, SweepPath
from deployer.sweeps.recount import find_equal_curves
from deployer.sweeps.results import build_results

VALUES = {"lr": (0.1, 0.2, 0.4), "batch": (16, 32)}


def find(script: Callable[[float, int], float]) -> list[dict[str, float]]:
    """Return the configurations that are named, of a grid whose script logs such a curve."""
    config = {"method": "grid", "metric": {"name": "loss", "goal": "minimize"}}
    parameters = {name: {"values": list(values)} for name, values in VALUES.items()}
    sweep = Sweep(
        SweepPath("e", "p", "s"),
        "n",
        "t",
        "FINISHED",
        {**config, "parameters": parameters},
        6,
        6,
        None,
    )
    runs, curves = [], {}
    for number, (lr, batch) in enumerate(product(*VALUES.values())):
        curve = tuple(script(lr, batch) / (step + 1) for step in range(4))
        summary = {"loss": curve[-1]}
        made = {"lr": lr, "batch": batch}
        runs.append(Run(f"r{number}", "t", "finished", made, summary, 0, float(number), None))
        curves[f"r{number}"] = curve
    results = build_results(sweep, runs)
    named = find_equal_curves(results, curves)
    return [dict(row.parameters) for row in results.rows if row.run_id in named]


@pytest.mark.parametrize(
    ("script", "named"),
    [
        (lambda lr, batch: lr * batch, 0),
        (lambda lr, batch: lr * batch**2, 0),
        (lambda lr, batch: lr + batch, 0),
        (lambda lr, _: lr, 2),
        (lambda _, batch: batch, 3),
        (lambda _, __: 1.0, 6),
    ],
    ids=["product", "another", "different", "batch-ignored", "lr-ignored", "all-ignored"],
)
def test_what_parameters_explain_is_no_doubt(
    script: Callable[[float, int], float], named: int
) -> None:
    assert len(find(script)) == named
