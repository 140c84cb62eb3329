"""examples/: scripts that know nothing of us run as they stand."""

from __future__ import annotations

import ast
import json
import shutil
import sys
from pathlib import Path

import pytest

from deployer.sweeps.sweep_file import load_sweep
from tests.real_data import DATA, ROOT
from tests.recipes.idx import write_mnist_part
from tests.recipes.readme import Recipe

MNIST = ROOT / "examples" / "mnist"
PUBLIC = {"torch", "torchvision", "wandb"}


def test_it_imports_nothing_of_ours() -> None:
    tree = ast.parse((MNIST / "main.py").read_text())
    nodes = list(ast.walk(tree))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    parts = [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    imported = {name.partition(".")[0] for name in [*plain, *parts]}
    assert imported - sys.stdlib_module_names == PUBLIC


def test_its_sweep_is_valid() -> None:
    sweep = load_sweep(MNIST / "sweep.yaml")
    assert sweep.warnings == ()
    assert sweep.expected == 8


@pytest.mark.full
@pytest.mark.data
def test_it_is_swept_as_it_stands(tmp_path: Path) -> None:
    folder = shutil.copytree(MNIST, tmp_path / "mnist")
    write_mnist_part(DATA / "mnist", folder / "data")
    copy = Recipe(folder)
    sweep = copy.read_yaml("sweep.yaml")
    sweep["parameters"] |= {"epochs": {"value": 1}}
    copy.write_yaml("sweep.yaml", {**sweep, "run_cap": 1})
    try:
        said = copy.run("deployer up sweep.yaml --replicas 1")
        rows = json.loads(copy.run("deployer results -o json 2>/dev/null"))["runs"]
    finally:
        copy.try_to_run("deployer down --all")
    assert "1/1 configurations finished, 0 duplicates, 0 lost" in said
    assert all(row["value"] > 0.5 for row in rows)
    assert {"lr", "gamma", "batch-size", "dropout"} <= rows[0]["parameters"].keys()
