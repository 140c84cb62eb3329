"""One configuration again: the sweep that repeats it, and the judgement of what came of it."""

from __future__ import annotations

import math

import pytest
import yaml

from deployer.sweeps.repeats import build_repeat_config, judge_repeats
from deployer.sweeps.sweep_file import parse_sweep

SWEEP = {
    "program": "train.py",
    "method": "bayes",
    "run_cap": 30,
    "metric": {"name": "loss", "goal": "minimize", "target": 0.1},
    "early_terminate": {"type": "hyperband", "min_iter": 1},
    "seed": 3,
    "command": ["python", "train.py", "${args}"],
    "parameters": {
        "lr": {"min": 0.0, "max": 1.0},
        "layers": {"values": [1, 2]},
        "optimizer": {"parameters": {"momentum": {"values": [0.8, 0.9]}}},
        "configuration": {"values": [{"JOB_ID": 1, "x": 2}]},
    },
}
CHOSEN = {
    "lr": 0.25,
    "layers": 2,
    "optimizer": {"momentum": 0.9},
    "configuration": {"JOB_ID": 1, "x": 2},
    "other": "what the trainer added",
}


def test_a_repeat_draws_nothing_and_ends_early_for_nothing() -> None:
    config = build_repeat_config(SWEEP, CHOSEN, 3, "again", "why")
    sweep = parse_sweep(yaml.safe_dump(config), "again")
    assert (sweep.method, sweep.run_cap, sweep.expected) == ("random", 3, 3)
    assert sweep.metric_target is None
    assert list(sweep.command) == SWEEP["command"]
    assert not config.keys() & {"seed", "early_terminate"}
    assert config["parameters"] == {
        "lr": {"value": 0.25},
        "layers": {"value": 2},
        "optimizer": {"parameters": {"momentum": {"value": 0.9}}},
        "configuration": {"value": {"JOB_ID": 1, "x": 2}},
    }


@pytest.mark.parametrize(
    ("value", "repeats", "tolerance", "within"),
    [
        (0.9, [0.9, 0.9, 0.9], None, True),
        (0.9, [0.9 + 1e-12] * 3, None, True),  # a sum in another order
        (0.9, [0.91, 0.91, 0.91], None, False),
        (0.9, [0.91, 0.92, 0.93], None, True),
        (0.9, [0.93, 0.94, 0.945], None, False),
        (0.9, [0.95], 0.1, True),
        (0.9, [0.95], 0.01, False),
        (0.9, [math.nan], 0.5, False),
        (1e6, [1e6 + 1e-5], 0.0, True),
    ],
)
def test_a_value_lies_within_what_its_repeats_differ_by(
    value: float, repeats: list[float], tolerance: float | None, within: bool
) -> None:
    assert judge_repeats(value, repeats, tolerance).within is within
