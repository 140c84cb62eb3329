"""An explicit list of configurations: the spreading program as an agent would run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.sweeps.configuration_list import (
    PARAMETER,
    build_command,
    build_list_config,
    find_list_parameter,
    list_configurations,
)
from deployer.sweeps.sweep_file import parse_sweep

CHOSEN: dict[str, Any] = {
    "lr": 1e-05,
    "on": True,
    "off": False,
    "name": "ä 'quoted' 008 😀",
    "none": None,
    "big": 1e22,
    "sizes": [1, 2.5],
    "optimizer": {"momentum": 0.9, "kind": "sgd"},
}
FORMS = (
    *("args", "args_no_equals", "args_no_hyphens", "args_no_boolean_flags"),
    *("args_append_hydra", "args_override_hydra", "args_json"),
)


def run_as_agent(command: list[str], folder: Path, args: dict[str, Any]) -> list[str]:
    """Expand a command as the stock agent does, run it and return what the trainer was given."""
    # Imported here: it takes more than a second, in each worker that only collects this file.
    from wandb.sdk.launch.sweeps import utils
    from wandb.sdk.lib.config_util import save_config_file_from_dict

    parameters = folder / "config-run.yaml"
    save_config_file_from_dict(str(parameters), args)  # type: ignore[no-untyped-call]
    expanded = utils.create_sweep_command_args({"args": args})
    macros = {**expanded, "env": ["/usr/bin/env"], "interpreter": [sys.executable]}
    words: list[str] = []
    for word in utils.create_sweep_command(list(command)):
        name = word.removeprefix("${").removesuffix("}")
        words += macros.get(name, []) if word.startswith("${") else [word]
    done = subprocess.run(
        words,
        env={**os.environ, "WANDB_SWEEP_PARAM_PATH": str(parameters)},
        capture_output=True,
        text=True,
        check=True,
    )
    received: list[str] = json.loads(done.stdout)
    return received


SHOW = "import json, sys; print(json.dumps(sys.argv[1:]))"


@pytest.mark.parametrize("form", FORMS)
def test_the_trainer_gets_what_the_agent_itself_would_give_it(form: str, tmp_path: Path) -> None:
    command = ["${env}", "${interpreter}", "-c", SHOW, "first", f"${{{form}}}"]
    own = {name: {"value": value} for name, value in CHOSEN.items()}
    expected = run_as_agent(command, tmp_path, own)
    listed = {PARAMETER: {"value": CHOSEN}}
    assert run_as_agent(list(build_command(command)), tmp_path, listed) == expected


def test_the_configuration_is_in_wandb_config_too(tmp_path: Path) -> None:
    from wandb.sdk.lib.config_util import dict_from_config_file

    command = build_command(["${env}", "${interpreter}", "-c", SHOW])
    assert run_as_agent(list(command), tmp_path, {PARAMETER: {"value": CHOSEN}}) == []
    found = dict_from_config_file(str(tmp_path / "config-run.yaml"))
    assert found == {PARAMETER: CHOSEN, **CHOSEN}


def test_a_file_of_arguments(tmp_path: Path) -> None:
    command = build_command(["${env}", "${interpreter}", "-c", SHOW, "${args_json_file}"])
    (path,) = run_as_agent(list(command), tmp_path, {PARAMETER: {"value": CHOSEN}})
    assert json.loads(Path(path).read_text()) == CHOSEN


def test_the_trainers_own_python_runs_the_program() -> None:
    assert build_command(["/opt/venv/bin/python3.12", "train.py", "${args}"])[1] == (
        "/opt/venv/bin/python3.12"
    )
    assert build_command(["torchrun", "${program}", "${args}"])[1] == "${interpreter}"


def test_a_list_is_a_sweep_that_can_run() -> None:
    original = {
        "program": "train.py",
        "method": "bayes",
        "metric": {"name": "loss", "goal": "minimize"},
        "run_cap": 9,
        "early_terminate": {"type": "hyperband", "min_iter": 1},
        "parameters": {"lr": {"min": 0.0, "max": 1.0}},
        "seed": 3,
    }
    chosen: list[dict[str, Any]] = [{"lr": 0.1}, {"lr": 0.2, "deep": {"x": 1}}]
    config = build_list_config(original, chosen, "name", "why")
    sweep = parse_sweep(yaml.safe_dump(config), "list")
    assert (sweep.method, sweep.expected, sweep.run_cap) == ("grid", 2, None)
    assert sweep.warnings == ()
    assert (sweep.program, sweep.metric_name) == ("train.py", "loss")
    assert not config.keys() & {"seed", "early_terminate", "run_cap"}
    assert find_list_parameter(config) == PARAMETER
    assert list_configurations(config) == chosen


@pytest.mark.parametrize(
    "parameters",
    [
        None,
        {},
        {"a": {"values": [1]}},
        {"a": {"value": {}}},
        {"a": 1},
        {"a": {"values": [{}]}, "b": 1},
    ],
)
def test_other_sweeps_are_no_lists(parameters: Any) -> None:
    assert find_list_parameter({"parameters": parameters}) == ""
    assert list_configurations({"parameters": parameters}) == []
