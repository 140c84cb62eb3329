"""Images: what is read, and what the random changes of a batch keep."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from trainer.augment import crop, cut_out, mirror
from trainer.data import load_dataset, training_batches
from trainer.errors import TrainerError

CPU = torch.device("cpu")
FOLDER = Path("unused")


def test_digits_are_scikit_learns_images_shared_out_once() -> None:
    dataset = load_dataset("digits", FOLDER, CPU)
    images = torch.cat([dataset.train.images, dataset.test.images]).flatten(1).double()
    labels = torch.cat([dataset.train.labels, dataset.test.labels])
    ours = torch.column_stack([(images * 16 / 255).round(), labels]).tolist()
    bunch = load_digits()
    assert sorted(ours) == sorted(np.column_stack([bunch.data, bunch.target]).tolist())
    assert dataset.shape == (1, 8, 8)
    assert len(dataset.test.labels) == 360


def test_normalised_images_have_mean_zero_and_deviation_one() -> None:
    dataset = load_dataset("digits", FOLDER, CPU)
    images = dataset.normalise(dataset.train.images)
    assert images.mean().item() == pytest.approx(0, abs=0.01)
    assert images.std().item() == pytest.approx(1, abs=0.01)


def test_an_epoch_shows_every_image_at_most_once() -> None:
    dataset = load_dataset("digits", FOLDER, CPU, train_limit=100)
    torch.manual_seed(0)
    batches = list(training_batches(dataset, 32))
    assert [len(labels) for _, labels in batches] == [32, 32, 32]
    shown = torch.cat([images for images, _ in batches])
    assert len({tuple(image) for image in shown.flatten(1).tolist()}) == 96
    assert [len(labels) for _, labels in training_batches(dataset, 512)] == [100]


def test_crops_are_windows_of_the_padded_image() -> None:
    torch.manual_seed(0)
    images = torch.randn(50, 3, 8, 8)
    windows = torch.nn.functional.pad(images, [1] * 4, mode="reflect").unfold(2, 8, 1)
    windows = windows.unfold(3, 8, 1)  # image, channel, down, right, row, column
    cropped = crop(images, margin=1)
    equal = (windows == cropped[:, :, None, None]).all(dim=5).all(dim=4).all(dim=1)
    assert equal.flatten(1).any(dim=1).all()
    assert len(set(equal.flatten(1).int().argmax(dim=1).tolist())) == 9


def test_mirror_turns_about_half_of_the_images() -> None:
    torch.manual_seed(0)
    images = torch.randn(400, 1, 4, 4)
    mirrored = mirror(images)
    turned = (mirrored == images.flip(-1)).flatten(1).all(dim=1)
    kept = (mirrored == images).flatten(1).all(dim=1)
    assert (turned | kept).all()
    assert 150 < turned.sum() < 250


@pytest.mark.parametrize(("size", "blank"), [(3, 9), (12, 64)])
def test_cutout_blanks_one_whole_square(size: int, blank: int) -> None:
    torch.manual_seed(0)
    cut = cut_out(torch.ones(50, 2, 8, 8), size)
    assert (cut == 0).sum(dim=(2, 3)).eq(blank).all()


def test_files_in_mnists_format_are_read_packed_or_not(tmp_path: Path) -> None:
    for packed in (True, False):
        folder = tmp_path / str(packed) / "MNIST" / "raw"
        folder.mkdir(parents=True)
        for kind, count in (("train", 3), ("t10k", 2)):
            pixels = np.arange(count * 784, dtype=np.uint8)
            images = struct.pack(">4i", 2051, count, 28, 28) + pixels.tobytes()
            labels = struct.pack(">2i", 2049, count) + bytes(range(count))
            for name, content in (("images-idx3", images), ("labels-idx1", labels)):
                file = folder / f"{kind}-{name}-ubyte{'.gz' if packed else ''}"
                file.write_bytes(gzip.compress(content) if packed else content)
        dataset = load_dataset("mnist", folder.parents[1], CPU)
        assert dataset.train.images.shape == (3, 1, 28, 28)
        assert dataset.train.images.flatten().tolist() == pixel_values(3)
        assert dataset.test.labels.tolist() == [0, 1]


def pixel_values(count: int) -> list[int]:
    """Return the bytes of `count` images that were written as 0, 1, 2, …"""
    return np.arange(count * 784, dtype=np.uint8).tolist()


def test_pickles_in_cifars_format_are_read_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    for number, name in enumerate(names):
        batch = {"data": np.full((2, 3072), number, np.uint8), "labels": [number, 9]}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    dataset = load_dataset("cifar10", tmp_path, CPU)
    assert dataset.train.labels.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]
    assert dataset.train.images[:, 2, 31, 31].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert dataset.test.labels.tolist() == [5, 9]


def test_a_broken_file_is_named_with_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        (folder / name).write_bytes(b"no pickle")
    with pytest.raises(TrainerError, match=f"cifar10 cannot be read from {tmp_path}") as caught:
        load_dataset("cifar10", tmp_path, CPU)
    assert caught.value.hint.startswith(f"put its files into {folder}")
