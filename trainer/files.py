"""The files of MNIST, Fashion-MNIST and CIFAR-10: found in a folder, downloaded, read."""

import fcntl
import gzip
import io
import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.errors import TrainerError

# Images (N, C, H, W) as bytes, and classes (N).
Arrays = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]

CIFAR_SHAPE = (3, 32, 32)
CIFAR_RECORD = 1 + 3 * 32 * 32  # bytes: the class, then the pixels of each colour
CIFAR_PARTS = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
IDX_PARTS = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
# What CIFAR-10's pickles hold: arrays of numpy, under its old and its new name.
PICKLED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("_codecs", "encode"),
}


@dataclass(frozen=True)
class Layout:
    """How a data set lies in a folder: the last `test_files` of its files are the test images."""

    home: str
    files: tuple[str, ...]
    test_files: int
    read: Callable[[Sequence[Path]], Arrays]

    def find(self, folder: Path) -> list[Path]:
        """Find the files below a folder or in it; none if one is missing."""
        for home in (folder / self.home, folder):
            files = [home / file for file in self.files]
            if all(file.is_file() for file in files):
                return files
        return []


def read_folder(name: str, folder: Path) -> tuple[Arrays, Arrays]:
    """Read the training and the test images, after downloading them if they are not there.

    Raises TrainerError if they cannot be read, and not downloaded either.
    """
    try:
        with one_at_a_time(folder):
            found = find_layout(name, folder)
            if found is None:
                download(name, folder)
                found = find_layout(name, folder)
            if found is None:
                raise FileNotFoundError("the download brought other files")
            layout, files = found
            split = len(files) - layout.test_files
            return layout.read(files[:split]), layout.read(files[split:])
    except (OSError, RuntimeError, ValueError, EOFError, zlib.error, UnpicklingError) as error:
        raise TrainerError(
            f"{name} cannot be read from {folder.resolve()}, nor downloaded to it: "
            + " ".join(str(error).split()),
            f"put its files into {folder / LAYOUTS[name][0].home}, or name another with --data DIR",
        ) from error


def find_layout(name: str, folder: Path) -> tuple[Layout, list[Path]] | None:
    """Find a data set's files in the first layout that is there as a whole."""
    found = ((layout, layout.find(folder)) for layout in LAYOUTS[name])
    return next((pair for pair in found if pair[1]), None)


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, so that of several runs that start together one downloads.

    A folder that cannot be written cannot be downloaded to, and needs no lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".trainer.lock").open("w")
    except OSError:
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def download(name: str, folder: Path) -> None:
    """Let torchvision download and unpack a data set.

    It is imported for this only: importing it costs seconds of every run.
    """
    from torchvision import datasets

    getattr(datasets, DOWNLOADS[name])(str(folder), download=True)


def read_idx(files: Sequence[Path]) -> Arrays:
    """Read images and labels in MNIST's format: a head of 16 or 8 bytes, then one byte a number."""
    images, labels = files
    pixels = np.frombuffer(read_bytes(images), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    classes = np.frombuffer(read_bytes(labels), np.uint8, offset=8)
    return pixels.copy(), classes.astype(np.int64)


def read_bytes(file: Path) -> bytes:
    """Read a file, unpacked if it is packed."""
    return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()


def read_pickles(files: Sequence[Path]) -> Arrays:
    """Read what torchvision unpacks: dicts with `data` (10000, 3072) by colour, and `labels`."""
    batches = [CifarUnpickler(io.BytesIO(file.read_bytes()), encoding="latin1") for file in files]
    contents = [batch.load() for batch in batches]
    images = np.concatenate([content["data"] for content in contents])
    labels = np.concatenate([content["labels"] for content in contents])
    return images.reshape(-1, *CIFAR_SHAPE), labels.astype(np.int64)


class CifarUnpickler(pickle.Unpickler):
    """An unpickler that makes arrays only: a pickle may otherwise run any program."""

    def find_class(self, module: str, name: str) -> Any:
        """Return one of numpy's names; raises UnpicklingError for any other."""
        if (module, name) not in PICKLED:
            raise UnpicklingError(f"{module}.{name} is no part of CIFAR-10")
        return super().find_class(module, name)


def read_binary(files: Sequence[Path]) -> Arrays:
    """Read CIFAR-10's binary version: records of one class and 3,072 pixels by colour."""
    for file in files:
        if file.stat().st_size % CIFAR_RECORD:
            raise ValueError(f"{file.name} does not end with a whole image")
    records = np.concatenate([np.fromfile(file, np.uint8) for file in files])
    records = records.reshape(-1, CIFAR_RECORD)
    return records[:, 1:].reshape(-1, *CIFAR_SHAPE), records[:, 0].astype(np.int64)


def list_idx_layouts(home: str) -> tuple[Layout, ...]:
    """Return MNIST's layouts, unpacked and packed."""
    packed = tuple(f"{file}.gz" for file in IDX_PARTS)
    return Layout(home, IDX_PARTS, 2, read_idx), Layout(home, packed, 2, read_idx)


# Of each data set the layout of torchvision.datasets first.
LAYOUTS = {
    "mnist": list_idx_layouts("MNIST/raw"),
    "fashion_mnist": list_idx_layouts("FashionMNIST/raw"),
    "cifar10": (
        Layout("cifar-10-batches-py", CIFAR_PARTS, 1, read_pickles),
        Layout(
            "cifar-10-batches-bin", tuple(f"{part}.bin" for part in CIFAR_PARTS), 1, read_binary
        ),
    ),
}
DOWNLOADS = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST", "cifar10": "CIFAR10"}
