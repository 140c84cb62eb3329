"""Training: it learns, it repeats itself, and an interruption leaves no trace in the numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.amp import GradScaler

from tests.trainer.conftest import arguments, run_here, without_seconds
from trainer.checkpoint import Row
from trainer.errors import TrainerError
from trainer.train import evaluate, learning_rate_factor, prepare, train

# Everything that draws random numbers or keeps a state.
BUSY = (
    "--epochs=4",
    "--dropout=0.2",
    "--augment",
    "--cutout=2",
    "--label_smoothing=0.1",
    "--train_limit=320",
)


TRICKS = ("--whiten", "--dirac", "--ema=0.9", "--alternating_flip", "--deterministic")


class Interruption(Exception):
    """Stands for whatever ends a run between two epochs."""


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param([], marks=pytest.mark.slow),
        ["--model=cnn", "--epochs=5"],
        pytest.param(["--optimizer=sgd"], marks=pytest.mark.full),
    ],
)
def test_digits_are_learnt(flags: list[str]) -> None:
    rows, _ = run_here(*flags)
    assert max(row["val_accuracy"] for row in rows) >= 0.97
    assert rows[-1]["train_loss"] < rows[0]["train_loss"]
    assert [row["epoch"] for row in rows] == list(range(1, len(rows) + 1))


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, _ = run_here(*BUSY, "--seed=7")
    second, _ = run_here(*BUSY, "--seed=7")
    other, _ = run_here(*BUSY, "--seed=8")
    assert first == second
    assert first != other


@pytest.mark.parametrize(
    "chosen",
    [
        ("--model=cnn", "--optimizer=sgd"),
        ("--model=cnn", "--optimizer=adam"),
        ("--model=cnn", "--optimizer=adamw"),
        ("--model=cnn", "--optimizer=rmsprop"),
        pytest.param(
            ("--model=resnet9", "--width=4", "--optimizer=sgd", "--amp", *TRICKS),
            marks=pytest.mark.full,
        ),
    ],
    ids=" ".join,
)
def test_an_interrupted_run_goes_on_bit_for_bit(chosen: tuple[str, ...], tmp_path: Path) -> None:
    flags = (*BUSY, *chosen)
    whole_rows, whole = run_here(*flags)
    resumed_flags = (*flags, f"--checkpoint_dir={tmp_path}")
    interrupt(resumed_flags, after_epoch=3)
    rows, resumed = run_here(*resumed_flags)
    assert rows == whole_rows
    assert_equal_states(whole.state({}), resumed.state({}))


def interrupt(flags: tuple[str, ...], after_epoch: int) -> None:
    """Run until an epoch is logged, but not yet in the checkpoint."""

    def log(row: Row) -> None:
        if row["epoch"] == after_epoch:
            raise Interruption

    args = arguments(*flags)
    with pytest.raises(Interruption):
        train(args, *prepare(args), log)


def assert_equal_states(one: Any, two: Any) -> None:
    """Compare nested states bit by bit, but for the seconds that epochs took."""
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, two)
    elif isinstance(one, dict):
        one, two = without_seconds(one), without_seconds(two)
        assert one.keys() == two.keys()
        for name in one:
            assert_equal_states(one[name], two[name])
    elif isinstance(one, list):
        assert len(one) == len(two)
        for left, right in zip(one, two, strict=True):
            assert_equal_states(left, right)
    else:
        assert one == two


def test_a_checkpoint_of_every_third_epoch_and_of_the_last(tmp_path: Path) -> None:
    flags = (*BUSY, "--checkpoint_every=3", f"--checkpoint_dir={tmp_path}")
    interrupt(flags, after_epoch=4)
    assert len(torch.load(tmp_path / "checkpoint.pt")["history"]) == 3
    rows, _ = run_here(*flags)
    assert len(torch.load(tmp_path / "checkpoint.pt")["history"]) == 4
    assert rows == run_here(*BUSY)[0]


def test_the_average_is_what_is_measured_and_it_lags_behind() -> None:
    flags = ("--epochs=1", "--train_limit=320")
    _, plain = run_here(*flags)
    rows, averaged = run_here(*flags, "--ema=0.9")
    args = arguments(*flags)
    dataset, _ = prepare(args)
    for name, weights in plain.model.state_dict().items():
        assert torch.equal(weights, averaged.model.state_dict()[name])
    measured = evaluate(args, dataset, dataset.validation, averaged.result)
    assert measured == (rows[0]["val_loss"], rows[0]["val_accuracy"])
    assert measured != evaluate(args, dataset, dataset.validation, averaged.model)


def test_a_flipped_test_is_blind_to_mirrors() -> None:
    args = arguments("--test_flip")
    dataset, progress = prepare(args)
    dataset = replace(dataset, name="fashion_mnist")  # whose images may be mirrored
    split = dataset.validation
    mirrored = replace(split, images=split.images.flip(-1))
    found = [evaluate(args, dataset, images, progress.model) for images in (split, mirrored)]
    assert found[0] == pytest.approx(found[1])
    assert evaluate(arguments(), dataset, split, progress.model) != pytest.approx(found[0])


def test_without_a_split_the_test_images_are_validated_on() -> None:
    rows, _ = run_here("--epochs=1", "--validation_split=0")
    assert "test_accuracy" not in rows[0]
    args = arguments("--validation_split=0")
    dataset, _ = prepare(args)
    assert len(dataset.validation.labels) == 360


def test_a_scaled_loss_goes_on_with_its_scale(tmp_path: Path) -> None:
    args = arguments(*BUSY, f"--checkpoint_dir={tmp_path}")
    dataset, progress = prepare(args)
    progress.scaler = GradScaler("cpu", init_scale=16.0, growth_interval=10)
    train(args, dataset, progress, lambda _: None)
    _, resumed = prepare(args)
    resumed.scaler = GradScaler("cpu")
    train(args, dataset, resumed, lambda _: None)
    assert resumed.scaler.get_scale() > 16
    assert_equal_states(progress.state({}), resumed.state({}))


def test_the_accuracy_is_that_of_every_test_image() -> None:
    args = arguments("--epochs=1")
    dataset, progress = prepare(args)
    sizes = [len(labels) for _, labels in dataset.test.in_batches(100)]
    assert sizes == [100, 100, 100, 60]
    loss, accuracy = evaluate(args, dataset, dataset.test, progress.model)
    with torch.no_grad():
        logits = progress.model(dataset.normalise(dataset.test.images))
    right = logits.argmax(dim=1) == dataset.test.labels
    assert accuracy == pytest.approx(right.sum().item() / 360, abs=1e-6)
    expected = torch.nn.functional.cross_entropy(logits, dataset.test.labels).item()
    assert loss == pytest.approx(expected, rel=1e-4)


def test_a_finished_run_is_told_again_and_not_trained_again(tmp_path: Path) -> None:
    flags = (*BUSY, f"--checkpoint_dir={tmp_path}")
    first, _ = run_here(*flags)
    written = (tmp_path / "checkpoint.pt").stat().st_mtime_ns
    second, _ = run_here(*flags)
    assert first == second
    assert (tmp_path / "checkpoint.pt").stat().st_mtime_ns == written


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path: Path) -> None:
    run_here("--epochs=1", f"--checkpoint_dir={tmp_path}")
    with pytest.raises(TrainerError, match=r"is of a run with another epochs, seed$"):
        run_here("--epochs=2", "--seed=1", f"--checkpoint_dir={tmp_path}")


def test_one_cycle_peaks_at_the_recipes_epoch_and_ends_near_zero() -> None:
    factor = partial(learning_rate_factor, "one_cycle", steps=2400)
    factors = [factor(step) for step in range(2400)]
    assert factors.index(max(factors)) in (499, 500)
    assert max(factors) == pytest.approx(1, abs=0.01)
    assert 0 < factors[0] < 0.01
    assert 0 < factors[-1] < 0.01


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_other_schedules_never_rise(schedule: str) -> None:
    factors = [learning_rate_factor(schedule, step, steps=10) for step in range(10)]
    assert factors == sorted(factors, reverse=True)
    assert all(0 < factor <= 1 for factor in factors)


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(TrainerError, match="--device abacus: "):
        run_here("--device=abacus")
