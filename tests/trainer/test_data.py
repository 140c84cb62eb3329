"""Images: what is read, and what the random changes of a batch keep."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from tests.trainer.conftest import arguments
from trainer.augment import cut_out, list_windows, mirror
from trainer.batches import TrainingBatches
from trainer.data import load_dataset
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


def test_the_same_images_are_held_out_for_every_seed_and_none_of_the_test_images() -> None:
    whole = load_dataset("digits", FOLDER, CPU)
    parts = [load_dataset("digits", FOLDER, CPU, validation_split=0.1) for _ in range(2)]
    held = parts[0].validation
    assert whole.validation is whole.test
    assert torch.equal(held.images, parts[1].validation.images)
    assert (len(parts[0].train.labels), len(held.labels)) == (1293, 144)
    together = torch.cat([parts[0].train.images, held.images]).flatten(1).tolist()
    assert sorted(together) == sorted(whole.train.images.flatten(1).tolist())


def test_an_image_is_mirrored_in_every_second_epoch() -> None:
    dataset = replace(load_dataset("digits", FOLDER, CPU), name="fashion_mnist")
    flags = ("--augment", "--alternating_flip")
    batches = TrainingBatches(dataset, arguments(*flags, "--seed=1"))
    other = TrainingBatches(dataset, arguments(*flags, "--seed=2"))
    sides = []
    for number in range(3):
        draws = batches.draw(number)
        sides.append(draws.mirrored[draws.order.argsort()])
    assert torch.equal(sides[0], ~sides[1])
    assert torch.equal(sides[0], sides[2])
    assert 0.4 < sides[0].float().mean() < 0.6
    assert not torch.equal(batches.first_mirrored, other.first_mirrored)


def test_an_epoch_shows_every_image_at_most_once() -> None:
    dataset = load_dataset("digits", FOLDER, CPU, train_limit=100)
    torch.manual_seed(0)
    batches = list(TrainingBatches(dataset, arguments("--batch_size=32")).in_epoch(0))
    assert [len(labels) for _, labels in batches] == [32, 32, 32]
    shown = torch.cat([images for images, _ in batches])
    assert len({tuple(image) for image in shown.flatten(1).tolist()}) == 96
    one = TrainingBatches(dataset, arguments("--batch_size=512"))
    assert [len(labels) for _, labels in one.in_epoch(0)] == [100]


def test_windows_are_those_of_the_padded_image() -> None:
    torch.manual_seed(0)
    images = torch.randint(256, (5, 3, 8, 8), dtype=torch.uint8)
    padded = torch.nn.functional.pad(images.float(), [2] * 4, mode="reflect").byte()
    windows = list_windows(images, 2)
    for down in range(5):
        for right in range(5):
            part = padded[:, :, down : down + 8, right : right + 8]
            assert torch.equal(windows[:, :, down, right], part)


def test_a_batch_is_made_of_windows_mirrored_or_not_and_cut() -> None:
    dataset = load_dataset("digits", FOLDER, CPU, train_limit=64)
    dataset = replace(dataset, name="fashion_mnist")  # whose images may be mirrored
    torch.manual_seed(0)
    batches = TrainingBatches(dataset, arguments("--batch_size=64", "--augment", "--cutout=3"))
    [(images, labels)] = batches.in_epoch(0)
    torch.manual_seed(0)
    draws = batches.draw(0)
    assert {len(set(part.tolist())) for part in (draws.down, draws.right)} == {3}
    assert 16 < draws.mirrored.sum() < 48
    windows = list_windows(dataset.train.images, 1)
    for index, image in enumerate(images):
        chosen = draws.order[index]
        window = windows[chosen, :, draws.down[index], draws.right[index]]
        window = window.flip(-1) if draws.mirrored[index] else window
        expected = dataset.normalise(window[None])[0]
        top, left = draws.top[index], draws.left[index]
        expected[:, top : top + 3, left : left + 3] = 0
        assert torch.equal(image, expected)
        assert labels[index] == dataset.train.labels[chosen]


def test_mirror_turns_the_chosen_images() -> None:
    images = torch.randn(4, 1, 4, 4)
    mirrored = mirror(images, torch.tensor([True, False, True, False]))
    assert torch.equal(mirrored[::2], images[::2].flip(-1))
    assert torch.equal(mirrored[1::2], images[1::2])


@pytest.mark.parametrize(("size", "blank"), [(3, 9), (12, 64)])
def test_cutout_blanks_one_whole_square(size: int, blank: int) -> None:
    places = torch.arange(max(8 - size, 0) + 1)
    cut = cut_out(torch.ones(len(places), 2, 8, 8), places, places.flip(0), size)
    assert (cut == 0).sum(dim=(2, 3)).eq(blank).all()
    assert cut[-1, 0, -1, 0] == 0


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


def write_cifar10(folder: Path, layout: str) -> None:
    """Write six files of two images each, all of whose pixels are the file's number."""
    (folder / layout).mkdir()
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    for number, name in enumerate(names):
        if layout == "cifar-10-batches-py":
            batch = {"data": np.full((2, 3072), number, np.uint8), "labels": [number, 9]}
            (folder / layout / name).write_bytes(pickle.dumps(batch, protocol=2))
        else:
            records = b"".join(bytes([label]) + bytes([number]) * 3072 for label in (number, 9))
            (folder / layout / f"{name}.bin").write_bytes(records)


@pytest.mark.parametrize("layout", ["cifar-10-batches-py", "cifar-10-batches-bin"])
@pytest.mark.parametrize("inside", [False, True], ids=["the folder above", "their own folder"])
def test_both_layouts_of_cifar10_are_read_in_order(
    layout: str, inside: bool, tmp_path: Path
) -> None:
    write_cifar10(tmp_path, layout)
    dataset = load_dataset("cifar10", tmp_path / layout if inside else tmp_path, CPU)
    assert dataset.train.labels.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]
    assert dataset.train.images[:, 2, 31, 31].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert dataset.test.labels.tolist() == [5, 9]


def test_pixels_of_the_binary_layout_are_by_colour_and_row(tmp_path: Path) -> None:
    write_cifar10(tmp_path, "cifar-10-batches-bin")
    pixels = np.arange(3072, dtype=np.uint16).astype(np.uint8)
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(b"\x07" + pixels.tobytes())
    dataset = load_dataset("cifar10", tmp_path, CPU)
    assert dataset.test.images[0].flatten().tolist() == pixels.tolist()
    assert dataset.test.images[0, 1, 2, 3] == (1024 + 2 * 32 + 3) % 256


def broken(folder: Path, content: bytes, layout: str = "cifar-10-batches-py") -> TrainerError:
    """Return what is said of a data set one of whose files has this content."""
    write_cifar10(folder, layout)
    next((folder / layout).glob("test_batch*")).write_bytes(content)
    with pytest.raises(TrainerError, match=f"cifar10 cannot be read from {folder}") as caught:
        load_dataset("cifar10", folder, CPU)
    return caught.value


def test_a_broken_file_is_named_with_its_folder(tmp_path: Path) -> None:
    error = broken(tmp_path, b"no pickle")
    assert error.hint.startswith(f"put its files into {tmp_path / 'cifar-10-batches-py'}")


def test_a_binary_file_that_ends_in_an_image_is_refused(tmp_path: Path) -> None:
    error = broken(tmp_path, b"\0" * 3072, "cifar-10-batches-bin")
    assert "test_batch.bin does not end with a whole image" in str(error)


def test_a_pickle_that_runs_a_program_is_refused(tmp_path: Path) -> None:
    error = broken(tmp_path, pickle.dumps(Program(tmp_path / "ran"), protocol=2))
    assert "system is no part of CIFAR-10" in str(error)
    assert not (tmp_path / "ran").exists()


class Program:
    """What a pickle may hold: a command, run when it is read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.file}",)
