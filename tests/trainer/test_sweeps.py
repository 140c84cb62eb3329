"""The sweep files: nothing to complain about, and every configuration is one the trainer takes."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from deployer.sweeps.sweep_file import load_sweep
from tests.project_files import SWEEPS, list_sweeps
from trainer.args import parse_args

# The data set and the number of configurations of every file that starts the trainer.
EXPECTED = {
    "digits.yaml": ("digits", 12),
    "fashion_mnist.yaml": ("fashion_mnist", 24),
    "mnist.yaml": ("mnist", 12),
    "recipes/001-cifar10/sweep.small.yaml": ("cifar10", 4),
    "recipes/001-cifar10/sweep.tricks.yaml": ("cifar10", 8),
    "recipes/001-cifar10/sweep.yaml": ("cifar10", 16),
}

every_file = pytest.mark.parametrize("name", EXPECTED)


def test_every_file_beside_the_recipes_is_known() -> None:
    assert {file.name for file in list_sweeps()} <= EXPECTED.keys()


@every_file
def test_a_file_is_valid_and_says_what_it_starts(name: str) -> None:
    sweep = load_sweep(SWEEPS / name)
    assert sweep.warnings == ()
    assert sweep.expected == EXPECTED[name][1]
    assert sweep.command[2:] == ("-m", "trainer", "${args}")
    assert sweep.program is not None
    assert (SWEEPS.parent / sweep.program).is_file()


@every_file
def test_the_trainer_takes_every_value_and_loses_none(name: str) -> None:
    parameters = load_sweep(SWEEPS / name).config["parameters"]
    choices = [[(key, value) for value in values(form)] for key, form in parameters.items()]
    seen = set()
    for configuration in product(*choices):
        args = parse_args([f"--{key}={value}" for key, value in configuration])
        seen.add(tuple(sorted(args.hyperparameters().items())))
        assert args.dataset == EXPECTED[name][0]
    assert len(seen) == len(list(product(*choices)))


def values(form: dict[str, Any]) -> list[Any]:
    """Return the values of a parameter, or the ends of its range."""
    if "value" in form:
        return [form["value"]]
    return list(form["values"]) if "values" in form else [form["min"], form["max"]]
