"""What `init` writes for a script: which flags are tried, how, and for which metric."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.errors import ConfigError
from deployer.launch.script import draft_for_script
from deployer.scripts.script_check import Report, Surroundings, check_script
from deployer.scripts.sweep_draft import SETTINGS, Flag, choose_metric, choose_parameter
from deployer.sweeps.sweep_file import parse_sweep
from tests.project_files import read_project
from tests.scripts.asking import RAN

LOG = "log_uniform_values"


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        (Flag("lr", "float", default=0.001), {"distribution": LOG, "min": 1e-4, "max": 1e-2}),
        (Flag("learning_rate", "float"), {"distribution": LOG, "min": 1e-4, "max": 0.1}),
        (
            Flag("weight-decay", "float", default=0.0),
            {"distribution": LOG, "min": 1e-6, "max": 1e-2},
        ),
        (
            Flag("dropout", "float", default=0.6),
            {"distribution": "uniform", "min": 0.0, "max": 0.6},
        ),
        (Flag("batchSize", "int", default=48), {"values": [24, 48, 96]}),
        (Flag("batch_size", "int"), {"values": [32, 64, 128]}),
        (Flag("n_layers", "int", default=1), {"distribution": "int_uniform", "min": 1, "max": 2}),
        (Flag("optimizer", choices=("sgd", "adam")), {"values": ["sgd", "adam"]}),
        (Flag("amp", plain=True), {"values": [True, False]}),
        (Flag("debug", plain=True), None),
        (Flag("epochs", "int", default=3), None),
        (Flag("seed", "int", default=3), None),
        (Flag("data", "str", default="./data"), None),
        (Flag("layers", "int", many=True), None),
    ],
)
def test_which_values_of_a_flag_are_tried(flag: Flag, said: dict[str, Any] | None) -> None:
    assert choose_parameter(flag) == said


def test_the_metric_is_one_of_data_held_out() -> None:
    assert choose_metric(["loss", "val_acc", "train_acc"]) == ("val_acc", "maximize")
    assert choose_metric(["train_loss", "val_loss"]) == ("val_loss", "minimize")
    assert choose_metric(["loss", "epoch"]) == ("loss", "minimize")
    assert choose_metric(["epoch"]) is None


SCRIPT = """import argparse, wandb
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=1e-3, help="how fast: %(default)s")
p.add_argument("--weight-decay", type=float)
p.add_argument("--optimizer", choices=["sgd", "adam", "on"])
p.add_argument("--amp", action="store_true")
p.add_argument("--epochs", type=int, default=3)
p.add_argument("--tag", default="1e-5")
p.add_argument("--data", required=True)
p.parse_args()
wandb.log({"val_loss": 1})
"""


def test_the_file_that_is_written_fits_its_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT + RAN)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    project = read_project(tmp_path, PATH=path)
    assert [one.name for one in draft_for_script(project, "train.py", {}).needed] == ["data"]
    draft = draft_for_script(project, "train.py", {"data": "my data"})
    assert (draft.needed, draft.tried) == ((), 4)
    sweep = parse_sweep(draft.text, "sweep.yaml")
    assert sweep.warnings == ()
    assert (sweep.metric_name, sweep.metric_goal) == ("val_loss", "minimize")
    assert sweep.config["parameters"]["optimizer"] == {"values": ["sgd", "adam", "on"]}
    assert sweep.config["parameters"]["data"] == {"value": "my data"}
    assert "  # epochs: {value: 3}\n" in draft.text
    assert yaml.safe_load(draft.text.split("  # tag: ")[1].split("\n")[0]) == {"value": "1e-5"}
    around = Surroundings(tmp_path, project.environment)
    assert check_script(sweep.config, around) == Report("train.py")
    assert not (tmp_path / "ran").exists()
    assert yaml.safe_load(SETTINGS) is None


@pytest.mark.parametrize(
    ("script", "named", "said"),
    [
        ("", "gone.py", "gone.py: script not found"),
        ("import wandb", "train.py", "train.py: it ends with exit code 0 before it has parsed"),
        (
            "import argparse\nargparse.ArgumentParser().parse_args()",
            "train.py",
            "train.py: its parser lists no flags",
        ),
    ],
)
def test_a_script_for_which_nothing_can_be_written(
    script: str, named: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(script)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with pytest.raises(ConfigError) as raised:
        draft_for_script(read_project(tmp_path, PATH=path), named, {})
    assert raised.value.message.startswith(said)


SUBCOMMANDS = """import argparse
p = argparse.ArgumentParser()
s = p.add_subparsers(required=True)
fit = s.add_parser("fit")
fit.add_argument("--lr", type=float, default=0.1)
fit.add_argument("--amp", action=argparse.BooleanOptionalAction, default=False)
fit.add_argument("--epochs", type=int, default=3)
p.parse_args()
"""
CONFIG = (
    "import wandb\nrun = wandb.init(config={'lr': 0.1, 'arch': 'x'})\nrun.log({'val_loss': 1})\n"
)


def test_subcommands_packages_and_values_of_wandb_config(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/train.py").write_text(SUBCOMMANDS)
    (tmp_path / "train.py").write_text(CONFIG)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    project = read_project(tmp_path, PATH=path)
    assert draft_for_script(project, "pkg.train", {}).subcommands == ("fit",)
    text = draft_for_script(project, "pkg.train", {}, ["fit"]).text
    command = '["${env}", "${interpreter}", "-m", "pkg.train", fit, "${args_no_boolean_flags}"]'
    assert f"command: {command}\n" in text
    assert "  amp: {values: [true, false]}\n" in text
    assert "  # epochs: {value: 3}\n" in text
    with pytest.raises(ConfigError, match="--lr takes float, not 'abc'"):
        draft_for_script(project, "pkg.train", {"lr": "abc"}, ["fit"])
    text = draft_for_script(project, "train.py", {}).text
    assert "metric: {name: val_loss, goal: minimize}\n" in text
    assert "  lr: {distribution: log_uniform_values, min: 0.01, max: 1.0}\n" in text
    assert "  # arch: {value: x}\n" in text
