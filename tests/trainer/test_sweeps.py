"""The sweep files: nothing to complain about, and every configuration is one the trainer takes."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from deployer.sweeps.sweep_file import load_sweep
from trainer.args import parse_args

FILES = sorted((Path(__file__).parents[2] / "sweeps").glob("*.yaml"))


def test_there_is_a_file_for_every_data_set() -> None:
    names = [file.stem for file in FILES]
    assert names == ["cifar10", "digits", "fashion_mnist", "mnist"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_is_valid_and_says_what_it_starts(file: Path) -> None:
    sweep = load_sweep(file)
    expected = {"cifar10": 16, "digits": 12, "fashion_mnist": 24, "mnist": 12}
    assert sweep.warnings == ()
    assert sweep.expected == expected[file.stem]
    assert sweep.command[2:] == ("-m", "trainer", "${args}")
    assert sweep.program is not None
    assert (file.parents[1] / sweep.program).is_file()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_trainer_takes_every_value_and_loses_none(file: Path) -> None:
    parameters = load_sweep(file).config["parameters"]
    choices = [[(name, value) for value in values(form)] for name, form in parameters.items()]
    seen = set()
    for configuration in product(*choices):
        args = parse_args([f"--{name}={value}" for name, value in configuration])
        seen.add(tuple(sorted(args.hyperparameters().items())))
        assert args.dataset == file.stem
    assert len(seen) == len(list(product(*choices)))


def values(form: dict[str, Any]) -> list[Any]:
    """Return the values of a parameter, or the ends of its range."""
    if "value" in form:
        return [form["value"]]
    return list(form["values"]) if "values" in form else [form["min"], form["max"]]
