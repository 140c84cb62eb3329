"""Images per second of the trainer's data path, against torchvision's data set in a DataLoader.

Both read CIFAR-10's pickles and give batches that are shuffled, cropped, mirrored, normalised and
cut; nothing is trained. The DataLoader is counted at its best: without workers, or with one for
each core. The images are random, which neither of the two can tell.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure

IMAGES = 10_000
BATCH = 512
CUTOUT = 8
EPOCHS = 5  # the first one starts workers and warms caches
GOAL = 1 / 3  # of the DataLoader's time


def bench_data_path(folder: Path) -> list[Figure]:
    """Compare the time of an epoch's batches."""
    import torch

    torch.set_num_threads(1)
    write_images(folder)
    ours = time_epochs(build_ours(folder))
    cores = os.cpu_count() or 1
    theirs = {workers: time_epochs(build_theirs(folder, workers)) for workers in (0, cores)}
    best = min(theirs, key=lambda workers: theirs[workers])
    rates = [round(IMAGES / seconds) for seconds in (ours, *theirs.values())]
    detail = f"{rates[0]} images/s on one core; DataLoader {rates[1]}, {cores} workers {rates[2]}"
    return [Figure("data path / DataLoader", ours / theirs[best], "times", GOAL, detail)]


def write_images(folder: Path) -> None:
    """Write random images in torchvision's layout, and what torchvision wants beside them."""
    import numpy as np

    home = folder / "cifar-10-batches-py"
    home.mkdir()
    rng = np.random.default_rng(0)
    part = IMAGES // 5
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        images = rng.integers(256, size=(part, 3072), dtype=np.uint8)
        content = {"data": images, "labels": rng.integers(10, size=part).tolist()}
        (home / name).write_bytes(pickle.dumps(content, protocol=2))


def build_ours(folder: Path) -> Iterable[Any]:
    """Return the trainer's batches."""
    import torch

    from trainer.batches import TrainingBatches
    from trainer.data import load_dataset

    dataset = load_dataset("cifar10", folder, torch.device("cpu"))
    return TrainingBatches(dataset, BATCH, augment=True, cutout=CUTOUT)


def build_theirs(folder: Path, workers: int) -> Iterable[Any]:
    """Return torchvision's data set with its own transforms, in a DataLoader."""
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms

    class Unchecked(datasets.CIFAR10):  # type: ignore[misc]
        """The images as they are, without the check of the original files' sums."""

        train_list = tuple((f"data_batch_{number}", None) for number in range(1, 6))

        def _check_integrity(self) -> bool:
            return True

        def _load_meta(self) -> None:
            """Leave out the names of the classes."""

    change = transforms.Compose(
        [
            transforms.RandomCrop(32, padding=4, padding_mode="reflect"),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
            transforms.RandomErasing(1.0, scale=(1 / 16, 1 / 16), ratio=(1.0, 1.0)),
        ]
    )
    return DataLoader(
        Unchecked(str(folder), transform=change),
        BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )


def time_epochs(batches: Iterable[Any]) -> float:
    """Return the seconds of the fastest epoch: what else the machine does only adds to one."""
    return min(timed(lambda: drain(batches)) for _ in range(EPOCHS))


def timed(do: Callable[[], None]) -> float:
    """Return how long something takes."""
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def drain(batches: Iterable[Any]) -> None:
    """Take every batch and drop it."""
    for _ in batches:
        pass
