"""Data sets as tensors that live on the device."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from trainer.errors import TrainerError
from trainer.files import Arrays, read_folder

# Mean and standard deviation of each channel over the training images, pixels between 0 and 1.
STATISTICS = {
    "digits": ((0.3053,), (0.3760,)),
    "mnist": ((0.1307,), (0.3081,)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
BYTE = 255  # the brightest pixel
DIGITS_FOR_TRAINING = 1437  # four fifths of 1,797


@dataclass(frozen=True)
class Split:
    """Images (N, C, H, W) as bytes, which take a quarter of the memory of floats, and classes."""

    images: Tensor
    labels: Tensor

    def first(self, limit: int) -> "Split":
        """Return the first `limit` images, or all if it is 0."""
        return Split(self.images[:limit], self.labels[:limit]) if limit else self

    def hold_out(self, share: float) -> tuple["Split", "Split"]:
        """Return the images to train on, and a share to validate on: the same for every seed."""
        count = len(self.labels)
        order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
        held = torch.zeros(count, dtype=torch.bool)
        held[order[: max(1, round(share * count))]] = True
        return (
            Split(self.images[~held], self.labels[~held]),
            Split(self.images[held], self.labels[held]),
        )

    def in_batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all images and labels in order, `size` at a time; the last may be fewer."""
        for start in range(0, len(self.labels), size):
            yield self.images[start : start + size], self.labels[start : start + size]

    def to(self, device: torch.device) -> "Split":
        """Return the same images on a device, in the order that convolutions are fastest with."""
        images = self.images.to(device).contiguous(memory_format=torch.channels_last)
        return Split(images, self.labels.to(device))


@dataclass(frozen=True)
class Dataset:
    """A data set on its device; runs of a sweep are compared by what they reach on `validation`.

    That is `test` itself if no training images are held out. `scale` and `shift` (1, C, 1, 1) make
    a byte a number with mean 0 and standard deviation 1.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    scale: Tensor
    shift: Tensor
    classes: int = 10

    @property
    def device(self) -> torch.device:
        """Where the images are."""
        return self.train.labels.device

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
        return images.float().mul_(self.scale).add_(self.shift)


def load_dataset(
    name: str,
    folder: Path,
    device: torch.device,
    *,
    validation_split: float = 0.0,
    train_limit: int = 0,
    test_limit: int = 0,
) -> Dataset:
    """Read a data set, from scikit-learn (digits) or a folder, and put it on the device.

    `validation_split` is the share of the training images that are held out; with 0 the test images
    are the validation images. What the folder lacks is downloaded as torchvision does it. Raises
    TrainerError if there are neither data nor a download.
    """
    if name == "digits":
        train, test = read_digits()
    else:
        train, test = map(build_split, read_folder(name, folder))
    train, test = train.first(train_limit), test.first(test_limit).to(device)
    validation = test
    if validation_split:
        train, held = train.hold_out(validation_split)
        validation = held.to(device)
    mean, deviation = (torch.tensor(numbers).view(1, -1, 1, 1) for numbers in STATISTICS[name])
    return Dataset(
        name,
        train.to(device),
        validation,
        test,
        scale=(1 / (BYTE * deviation)).to(device),
        shift=(-mean / deviation).to(device),
    )


def build_split(arrays: Arrays) -> Split:
    """Return arrays as tensors, which share their memory."""
    images, labels = arrays
    return Split(torch.from_numpy(images), torch.from_numpy(labels))


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
    brightness = table[:, :64] * (BYTE / 16)
    whole = Split(brightness.round().byte().view(-1, 1, 8, 8), table[:, 64].long())
    rest = Split(whole.images[DIGITS_FOR_TRAINING:], whole.labels[DIGITS_FOR_TRAINING:])
    return whole.first(DIGITS_FOR_TRAINING), rest
