"""A supervisor asks a script that only its pod has before its agent takes a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import deployer
import deployer.scripts
from deployer.agent.exit_codes import REFUSED
from deployer.agent.settings import SCRIPT_CHECK_VARIABLE
from deployer.scripts.pod_request import build_pod_request
from tests.agent.conftest import Bench

PLACES = {"": "sweep.yaml:4: parameters", "lr": "sweep.yaml:5: parameters.lr"}


@pytest.mark.slow
def test_a_refusal_ends_the_agent_before_it_has_a_run(bench: Bench) -> None:
    """What the script takes runs; what it refuses is not handed out."""
    folders = [Path(deployer.__file__).parents[1], Path(deployer.scripts.__file__).parent]
    path = bench.create_sweep("[1.0]")

    def run(value: object) -> tuple[int, str]:
        config = {"program": "train.py", "method": "grid", "parameters": {"lr": {"value": value}}}
        settings = {
            SCRIPT_CHECK_VARIABLE: build_pod_request(config, PLACES),
            "PYTHONPATH": os.pathsep.join(map(str, folders)),
        }
        return bench.start(path, **settings).wait()

    code, output = run("x")
    assert code == REFUSED, output
    assert (
        "ended with exit code 65: sweep.yaml:5: parameters.lr: train.py:6: argument --lr: "
        "invalid float value: 'x' (write numbers as its values)\n"
    ) in output
    assert bench.runs(path) == ()
    code, output = run(1.0)
    assert code == 0, output
    assert "the script takes the sweep's flags\n" in output
    assert [run.state for run in bench.runs(path)] == ["finished"]
