"""Sweep files: what a good one becomes, and which files are none."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from deployer.errors import ConfigError
from deployer.sweeps.sweep_file import SweepFile, dump_config, load_sweep, parse_sweep
from tests.sweeps.sweep_texts import errors_of, grid

GOOD = """\
program: train.py
method: bayes
name: first
run_cap: 20
metric: {name: val.loss, goal: maximize, target: 0.99}
command: [python, "${program}", "${args}", --threads, 1]
parameters:
  lr: {distribution: log_uniform_values, min: 1.0e-5, max: 0.1}
  layers: {min: 1, max: 4}
"""


def test_a_good_file_says_everything() -> None:
    sweep = parse_sweep(GOOD, "s.yaml")
    assert sweep == SweepFile(
        name="first",
        method="bayes",
        program="train.py",
        command=("python", "${program}", "${args}", "--threads", "1"),
        metric_name="val.loss",
        metric_goal="maximize",
        metric_target=0.99,
        run_cap=20,
        entity=None,
        project=None,
        config=sweep.config,
        text=sweep.text,
        expected=20,
        document=sweep.document,
    )
    assert sweep.config["parameters"]["layers"]["distribution"] == "int_uniform"
    assert yaml.safe_load(sweep.text) == sweep.config


def test_anchors_and_merges_are_resolved() -> None:
    text = grid("a: &a {values: [1, 2]}\nb: *a\nc: {<<: *a}")
    sweep = parse_sweep(text, "s.yaml")
    assert (sweep.expected, sweep.warnings) == (8, ())


def test_run_cap_of_the_command_line_replaces_the_files() -> None:
    endless = GOOD.replace("run_cap: 20\n", "")
    sweep = parse_sweep(endless, "s.yaml", run_cap=5)
    assert (sweep.run_cap, sweep.expected, sweep.config["run_cap"]) == (5, 5, 5)


def test_a_scheduler_brings_its_own_parameters() -> None:
    scheduler = "{engine: optuna, source: s.py, search_space: f}"
    text = f"program: t.py\nmethod: custom\nscheduler: {scheduler}\n"
    sweep = parse_sweep(text, "s.yaml")
    assert (sweep.method, sweep.expected, sweep.warnings) == ("custom", None, ())


def test_texts_that_look_like_numbers_are_sent_in_quotes() -> None:
    config = {"a": ["008", "1e-5", "12", "adam"]}
    assert dump_config(config) == "a:\n- '008'\n- '1e-5'\n- '12'\n- adam\n"


BEGIN = "begin with program: train.py, method: grid and parameters:"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "s.yaml: the file is empty", BEGIN),
        ("# nothing\n", "s.yaml: the file is empty", BEGIN),
        ("- 1\n", "s.yaml: a list, not a mapping of keys to values", BEGIN),
        ("hello\n", "s.yaml: a str, not a mapping of keys to values", BEGIN),
        (
            "a: [1,\nb: 2\n",
            "s.yaml:3:1: unreadable YAML: a list without its closing bracket",
            "add a comma or the closing ]",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "s.yaml:2:1: unreadable YAML: a second document",
            "remove what follows the line ---",
        ),
        (
            "a:\n\tb: 2\n",
            "s.yaml:2:1: unreadable YAML: a tab",
            "indent with spaces, not tabs",
        ),
        (
            "a: 2026-13-45\n",
            "s.yaml: unreadable YAML: month must be in 1..12",
            "correct this value",
        ),
        ("a: &x\n  b: *x\n", "s.yaml: an anchor contains itself", "remove the inner alias"),
    ],
)
def test_files_that_are_no_sweep(text: str, message: str, hint: str) -> None:
    assert errors_of(text) == [(message, hint)]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nope\.yaml: cannot be read: no such file or directory"):
        load_sweep(tmp_path / "nope.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml: not a UTF-8 text file"):
        load_sweep(tmp_path / "latin.yaml")
