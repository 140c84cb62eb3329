"""Real CIFAR-10 images, from the sheets of the test data, in the layouts that the trainer reads."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

Bytes = npt.NDArray[np.uint8]
SHEET = 1000  # images: 25 rows of 40
TRAINING_IMAGES = 50_000


def write_pickles(sheets: Path, folder: Path) -> None:
    """Write 5,000 training and 1,000 test images as the files that torchvision unpacks."""
    home = folder / "cifar-10-batches-py"
    home.mkdir(parents=True)
    for name, images, labels in read_parts(sheets):
        content = {"data": images.reshape(-1, 3072), "labels": labels.tolist()}
        (home / name).write_bytes(pickle.dumps(content, protocol=2))


def write_binary(sheets: Path, folder: Path) -> None:
    """Write the same images as the files of the binary version."""
    home = folder / "cifar-10-batches-bin"
    home.mkdir(parents=True)
    for name, images, labels in read_parts(sheets):
        records = np.concatenate([labels[:, None], images.reshape(-1, 3072)], axis=1)
        (home / f"{name}.bin").write_bytes(records.tobytes())


def read_parts(sheets: Path) -> Iterator[tuple[str, Bytes, Bytes]]:
    """Yield the name, the images (1000, 3, 32, 32) and the labels of each of the six files."""
    labels = np.fromfile(sheets / "labels.u8", np.uint8)
    for number in range(5):
        part = labels[SHEET * number : SHEET * (number + 1)]
        yield f"data_batch_{number + 1}", read_sheet(sheets / f"train_{number:02}.webp"), part
    part = labels[TRAINING_IMAGES : TRAINING_IMAGES + SHEET]
    yield "test_batch", read_sheet(sheets / "test_00.webp"), part


def read_sheet(file: Path) -> Bytes:
    """Cut a sheet into its images."""
    pixels = np.asarray(Image.open(file).convert("RGB")).reshape(25, 32, 40, 32, 3)
    return pixels.transpose(0, 2, 4, 1, 3).reshape(SHEET, 3, 32, 32)
