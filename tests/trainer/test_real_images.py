"""What the trainer reaches on the data sets that are too large for the project."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from tests.trainer.cifar10_files import write_binary, write_pickles
from tests.trainer.conftest import run_here
from trainer.data import load_dataset

pytestmark = [pytest.mark.data, pytest.mark.slow]


@pytest.mark.full
def test_mnist_is_over_98_percent_after_one_epoch(data_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(data_folder / "mnist", tmp_path, dirs_exist_ok=True)
    rows, _ = run_here("--dataset=mnist", f"--data={tmp_path}")
    assert [row["epoch"] for row in rows] == [1]
    assert rows[0]["val_accuracy"] > 0.98


@pytest.mark.full
def test_fashion_mnist_is_learnt_from_the_sweeps_part(data_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(data_folder / "fashion_mnist", tmp_path, dirs_exist_ok=True)
    rows, _ = run_here(
        "--dataset=fashion_mnist",
        f"--data={tmp_path}",
        "--epochs=2",
        "--train_limit=12000",
        "--test_limit=2000",
    )
    assert rows[-1]["val_accuracy"] > 0.84


@pytest.mark.full
def test_resnet9_learns_cifar10_with_every_augmentation(data_folder: Path, tmp_path: Path) -> None:
    write_pickles(data_folder / "cifar10_webp", tmp_path)
    rows, _ = run_here(
        "--dataset=cifar10",
        f"--data={tmp_path}",
        "--width=4",
        "--epochs=3",
        "--train_limit=4000",
        "--test_limit=1000",
        "--batch_size=64",
    )
    assert rows[-1]["val_accuracy"] > 0.35


def test_both_layouts_of_cifar10_hold_the_same_images(data_folder: Path, tmp_path: Path) -> None:
    sheets = data_folder / "cifar10_webp"
    write_pickles(sheets, tmp_path / "py")
    write_binary(sheets, tmp_path / "bin")
    cpu = torch.device("cpu")
    pickles, binary = (load_dataset("cifar10", tmp_path / name, cpu) for name in ("py", "bin"))
    assert len(binary.train.labels) == 5000
    for one, other in ((pickles.train, binary.train), (pickles.test, binary.test)):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.labels, other.labels)
    mean = binary.normalise(binary.train.images).mean(dim=(0, 2, 3))
    assert mean.abs().max() < 0.05  # the published statistics, so these are the real images
