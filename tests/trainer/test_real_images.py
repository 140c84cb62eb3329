"""What the trainer reaches on the data sets that are too large for the project."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.trainer.conftest import run_here

pytestmark = [pytest.mark.data, pytest.mark.slow]


def test_mnist_is_over_98_percent_after_one_epoch(data_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(data_folder / "mnist", tmp_path, dirs_exist_ok=True)
    rows, _ = run_here("--dataset=mnist", f"--data={tmp_path}")
    assert [row["epoch"] for row in rows] == [1]
    assert rows[0]["val_accuracy"] > 0.98


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


def test_resnet9_learns_cifar10_with_every_augmentation(data_folder: Path, tmp_path: Path) -> None:
    write_cifar10_pickles(data_folder / "cifar10_webp", tmp_path / "cifar-10-batches-py")
    rows, _ = run_here(
        "--dataset=cifar10",
        f"--data={tmp_path}",
        "--width=8",
        "--epochs=3",
        "--train_limit=4000",
        "--test_limit=1000",
        "--batch_size=64",
    )
    assert rows[-1]["val_accuracy"] > 0.35


def write_cifar10_pickles(sheets: Path, folder: Path) -> None:
    """Write the first 5,000 and the last 1,000 images as the files that torchvision unpacks."""
    folder.mkdir()
    labels = np.fromfile(sheets / "labels.u8", np.uint8).tolist()
    for number in range(5):
        part = labels[1000 * number : 1000 * (number + 1)]
        write_batch(folder / f"data_batch_{number + 1}", sheets / f"train_{number:02}.webp", part)
    write_batch(folder / "test_batch", sheets / "test_00.webp", labels[50_000:51_000])


def write_batch(file: Path, sheet: Path, labels: list[int]) -> None:
    """Cut a sheet of 25 rows of 40 images into one pickle."""
    pixels = np.asarray(Image.open(sheet).convert("RGB")).reshape(25, 32, 40, 32, 3)
    images = pixels.transpose(0, 2, 4, 1, 3).reshape(1000, 3072)
    file.write_bytes(pickle.dumps({"data": images, "labels": labels}, protocol=2))
