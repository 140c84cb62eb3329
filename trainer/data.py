"""Data sets as tensors that live on the device, and batches of them, augmented there."""

import fcntl
import gzip
import pickle
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import torch
from torch import Tensor

from trainer.augment import crop, cut_out, mirror
from trainer.errors import TrainerError

# Mean and standard deviation of each channel over the training images, pixels between 0 and 1.
STATISTICS = {
    "digits": ((0.3053,), (0.3760,)),
    "mnist": ((0.1307,), (0.3081,)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
# The classes of torchvision.datasets and where they keep their files, below `root`.
DOWNLOADS = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST", "cifar10": "CIFAR10"}
HOMES = {
    "mnist": "MNIST/raw",
    "fashion_mnist": "FashionMNIST/raw",
    "cifar10": "cifar-10-batches-py",
}
IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
DIGITS_FOR_TRAINING = 1437  # four fifths of 1,797


@dataclass(frozen=True)
class Split:
    """Images (N, C, H, W) as bytes, which take a quarter of the memory of floats, and classes."""

    images: Tensor
    labels: Tensor

    def first(self, limit: int) -> "Split":
        """Return the first `limit` images, or all if it is 0."""
        return Split(self.images[:limit], self.labels[:limit]) if limit else self

    def in_batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all images and labels in order, `size` at a time; the last may be fewer."""
        for start in range(0, len(self.labels), size):
            yield self.images[start : start + size], self.labels[start : start + size]

    def to(self, device: torch.device) -> "Split":
        """Return the same images on a device."""
        return Split(self.images.to(device), self.labels.to(device))


@dataclass(frozen=True)
class Dataset:
    """A data set on its device; runs of a sweep are compared by what they reach on `test`."""

    name: str
    train: Split
    test: Split
    classes: int = 10

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    def steps_per_epoch(self, batch_size: int) -> int:
        """Count the full batches: the rest of each epoch's shuffle is left out.

        A rest of one image has no variance, and batch normalisation would refuse it.
        """
        return max(1, len(self.train.labels) // batch_size)

    @property
    def mirrored(self) -> bool:
        """Whether a mirrored image keeps its class: a mirrored 2 is no 2."""
        return self.name in ("fashion_mnist", "cifar10")

    def normalise(self, images: Tensor) -> Tensor:
        """Return bytes (N, C, H, W) as floats with mean 0 and standard deviation 1."""
        mean, deviation = (
            torch.tensor(values, device=images.device).view(1, -1, 1, 1)
            for values in STATISTICS[self.name]
        )
        return (images.float() / 255 - mean) / deviation


def load_dataset(
    name: str, folder: Path, device: torch.device, train_limit: int = 0, test_limit: int = 0
) -> Dataset:
    """Read a data set, from scikit-learn (digits) or a folder, and put it on the device.

    What the folder lacks is downloaded as torchvision does it. Raises TrainerError if there are
    neither data nor a download.
    """
    if name == "digits":
        train, test = read_digits()
    else:
        train, test = read_folder(name, folder)
    return Dataset(name, train.first(train_limit).to(device), test.first(test_limit).to(device))


def read_digits() -> tuple[Split, Split]:
    """Read scikit-learn's 1,797 images of 8x8 pixels from the file behind its `load_digits`.

    The file alone, since importing scikit-learn takes longer than training on it. The split is
    the same whatever a run's seed is, or runs could not be compared.
    """
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise TrainerError(
            "digits comes with scikit-learn, which is missing", "pip install scikit-learn"
        )
    file = Path(package.submodule_search_locations[0], "datasets/data/digits.csv.gz")
    table = torch.from_numpy(np.loadtxt(file, delimiter=",", dtype=np.float32))
    table = table[torch.randperm(len(table), generator=torch.Generator().manual_seed(0))]
    brightness = table[:, :64] * (255 / 16)
    whole = Split(brightness.round().byte().view(-1, 1, 8, 8), table[:, 64].long())
    rest = Split(whole.images[DIGITS_FOR_TRAINING:], whole.labels[DIGITS_FOR_TRAINING:])
    return whole.first(DIGITS_FOR_TRAINING), rest


def read_folder(name: str, folder: Path) -> tuple[Split, Split]:
    """Read a data set in torchvision's layout, after downloading it if it is not there.

    torchvision is imported for the download only: importing it costs seconds of every run.
    """
    find, read = (find_batches, read_batches) if name == "cifar10" else (find_idx, read_idx)
    home = folder / HOMES[name]
    try:
        with one_at_a_time(folder):
            if not find(home):
                download(name, folder)
            files = find(home)
            return read(files, train=True), read(files, train=False)
    except (OSError, RuntimeError, ValueError, EOFError, zlib.error, UnpicklingError) as error:
        raise TrainerError(
            f"{name} cannot be read from {folder.resolve()}, nor downloaded to it: "
            + " ".join(str(error).split()),
            f"put its files into {folder / HOMES[name]}, or name another with --data DIR",
        ) from error


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
    """Let torchvision download and unpack a data set."""
    from torchvision import datasets

    getattr(datasets, DOWNLOADS[name])(str(folder), download=True)


def find_idx(folder: Path) -> list[Path]:
    """Find the four files of MNIST or Fashion-MNIST, packed or not; none if one is missing."""
    found = [folder / file for file in IDX_FILES if (folder / file).exists()]
    packed = [folder / f"{file}.gz" for file in IDX_FILES if (folder / f"{file}.gz").exists()]
    return next((files for files in (found, packed) if len(files) == len(IDX_FILES)), [])


def read_idx(files: list[Path], train: bool) -> Split:
    """Read images and labels in MNIST's format: a head of 16 or 8 bytes, then one byte a number."""
    images, labels = files[:2] if train else files[2:]
    pixels = np.frombuffer(read_bytes(images), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    classes = np.frombuffer(read_bytes(labels), np.uint8, offset=8)
    return Split(torch.from_numpy(pixels.copy()), torch.from_numpy(classes.astype(np.int64)))


def read_bytes(file: Path) -> bytes:
    """Read a file, unpacked if it is packed."""
    return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()


def find_batches(folder: Path) -> list[Path]:
    """Find CIFAR-10's six pickles; none if one is missing."""
    batches = [f"data_batch_{number}" for number in range(1, 6)]
    files = [folder / file for file in [*batches, "test_batch"]]
    return files if all(file.exists() for file in files) else []


def read_batches(files: list[Path], train: bool) -> Split:
    """Read CIFAR-10's pickles: dicts with `data` (10000, 3072) in channel order, and `labels`."""
    chosen = files[:-1] if train else files[-1:]
    batches = [pickle.loads(file.read_bytes(), encoding="latin1") for file in chosen]
    images = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([batch["labels"] for batch in batches]).astype(np.int64)
    return Split(torch.from_numpy(images), torch.from_numpy(labels))


def training_batches(
    dataset: Dataset, batch_size: int, augment: bool = False, cutout: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield one epoch of shuffled images (N, C, H, W) and labels (N), `steps_per_epoch` batches.

    Random numbers come from torch's default generator on the CPU, so a seed means the same batches
    on every device.
    """
    split = dataset.train
    order = torch.randperm(len(split.labels)).to(split.labels.device)
    for step in range(dataset.steps_per_epoch(batch_size)):
        indices = order[step * batch_size : (step + 1) * batch_size]
        images = dataset.normalise(split.images[indices])
        if augment:
            images = crop(images, margin=images.shape[-1] // 8)
            images = mirror(images) if dataset.mirrored else images
        if cutout:
            images = cut_out(images, cutout)
        yield images, split.labels[indices]
