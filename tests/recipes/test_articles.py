"""The articles' own way to train: scripts without W&B, whose numbers `metrics:` reads.

Each is run here by its sweep's command, and read as its `deployer.yaml` says; recipe 000's README
has one of them swept.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from deployer.agent.metric_lines import LineSplitter, TextLines
from deployer.sweeps.set_files import list_sets, load_sets
from deployer.sweeps.sweep_file import load_sweep
from tests.real_data import DATA
from tests.recipes.idx import write_mnist_part
from tests.recipes.readme import RECIPES, Recipe
from tests.trainer.cifar10_files import read_sheet, write_binary

SCRIPTS = sorted(RECIPES.glob("*/sweep.article.yaml"))
PARTS = {"train": 512, "t10k": 100}
SETS = [
    {
        "hyperparam_set": {
            "epochs": 1,
            "width": 4,
            "train_limit": 640,
            "batch_norm": "on",
            "batch_size": 64,
        }
    }
]


def write_mnist(folder: Path) -> None:
    """Write a part of MNIST."""
    write_mnist_part(DATA / "mnist", folder, parts=PARTS)


def write_fashion(folder: Path) -> None:
    """Write a part of Fashion-MNIST."""
    write_mnist_part(DATA / "fashion_mnist", folder, "FashionMNIST", PARTS)


def write_cifar10(folder: Path) -> None:
    """Write a part of CIFAR-10, the set of a small job beside it."""
    write_binary(DATA / "cifar10_webp", folder)
    (folder.parent / "001-cifar10" / "hyperparams.yml").write_text(yaml.safe_dump(SETS))


def write_pets(folder: Path) -> None:
    """Write real cats and dogs, and a damaged file, as the archive is unpacked."""
    labels = np.fromfile(DATA / "cifar10_webp/labels.u8", np.uint8)
    images = read_sheet(DATA / "cifar10_webp/train_00.webp").transpose(0, 2, 3, 1)
    for label, kind in ((3, "Cat"), (5, "Dog")):
        (folder / "PetImages" / kind).mkdir(parents=True)
        (folder / "PetImages" / kind / "666.jpg").write_bytes(b"no picture")
        for number in np.flatnonzero(labels[: len(images)] == label):
            Image.fromarray(images[number]).save(folder / "PetImages" / kind / f"{number}.jpg")


FIRST_SET = '{"configuration": {"JOB_ID": 1}}'
# Of each recipe: its data, what the sweep gives, the metrics that are found, the files that stay.
WAYS: dict[str, tuple[Callable[[Path], None], str, set[str], set[str]]] = {
    "000-mnist-grid": (write_mnist, FIRST_SET, {"test_loss", "test_accuracy"}, set()),
    "001-cifar10": (
        write_cifar10,
        FIRST_SET,
        {*("train time", "train loss", "train acc"), *("test time", "test loss", "test acc")}
        | {"total time"},
        {"results.log", "best.pt", "metrics.json"},
    ),
    "003-eidf": (write_fashion, "completion=1", {"loss", "accuracy"}, {"model.pth"}),
    "004-kubejob": (
        write_pets,
        "EPOCHS=2",
        {"loss", "accuracy"},
        {"catdogclassification.pth", "catdogclassification.json"},
    ),
}


@pytest.mark.full
@pytest.mark.data
@pytest.mark.parametrize("name", WAYS)
def test_its_numbers_are_found_in_what_it_prints(
    name: str, recipe: Callable[[str], Recipe], tmp_path: Path
) -> None:
    write, given, metrics, kept = WAYS[name]
    copy = recipe(name)
    write(tmp_path / "images")
    (tmp_path / "outputs").mkdir()
    sweep = load_sweep(copy.folder / "sweep.article.yaml")
    words = {"${interpreter}": "python", "${env}": "/usr/bin/env"}
    words |= dict.fromkeys(("${args_json}", "${args_no_hyphens}"), given)
    command = [words.get(word, word) for word in sweep.command]
    command[-1] = str(sweep.program)
    said = run(command, copy.folder, tmp_path)
    text = TextLines(copy.read_yaml("deployer.yaml")["metrics"]["pattern"])
    rows = [row for line in LineSplitter().feed(said) if (row := text.read(line))]
    assert {name for row in rows for name in row} == metrics
    assert sweep.metric_name in metrics
    assert 0.1 < max(row.get(sweep.metric_name, 0) for row in rows) <= 100
    assert {path.name for path in (tmp_path / "outputs").iterdir()} == kept


def run(command: list[str], folder: Path, above: Path) -> bytes:
    """Run a command as an agent does, and return its output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    folders = {
        "DEPLOYER_DATA_DIR": str(above / "images"),
        "DEPLOYER_OUTPUT_DIR": str(above / "outputs"),
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **folders},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout


@pytest.mark.parametrize(
    ("name", "file"), [("000-mnist-grid", "hyperparams.yml"), ("001-cifar10", "sweep.yaml")]
)
def test_the_ranking_shows_the_sets_that_the_script_reads(name: str, file: str) -> None:
    shown = list_sets(load_sweep(RECIPES / name / "sweep.article.yaml").config, "")
    if file == "sweep.yaml":  # `sweep export` writes the script's file from it
        assert shown == list_sets(load_sweep(RECIPES / name / file).config, "")
    else:
        assert shown == list(load_sets(RECIPES / name / file).sets)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.parent.name)
def test_it_knows_nothing_of_wandb(path: Path) -> None:
    script = (path.parent / str(load_sweep(path).program)).read_text()
    assert not re.search(r"^\s*(?:import|from) (?:wandb|deployer)", script, re.MULTILINE)
