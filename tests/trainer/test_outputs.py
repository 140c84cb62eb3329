"""The output folder: the model kept is the best epoch's, and the metrics are those logged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.trainer.conftest import arguments, run_here, without_seconds
from trainer.args import parse_args
from trainer.checkpoint import Row
from trainer.train import evaluate, prepare, train

# With this rate the last epoch is not the best one.
SHAKY = ("--epochs=6", "--optimizer=sgd", "--learning_rate=3", "--schedule=constant")


def test_the_best_model_has_the_accuracy_that_was_logged(tmp_path: Path) -> None:
    rows, _ = run_here(*SHAKY, f"--output_dir={tmp_path}")
    best = max(rows, key=lambda row: row["val_accuracy"])
    assert best != rows[-1]
    kept = torch.load(tmp_path / "best.pt", weights_only=True)
    assert kept["epoch"] == best["epoch"]
    args = arguments(*(f"--{name}={value}" for name, value in kept["hyperparameters"].items()))
    dataset, progress = prepare(args)
    progress.model.load_state_dict(kept["model"])
    assert evaluate(args, dataset, dataset.validation, progress.model) == (
        best["val_loss"],
        best["val_accuracy"],
    )


def test_the_metrics_tell_the_last_epoch_from_the_best(tmp_path: Path) -> None:
    rows, _ = run_here(*SHAKY, f"--output_dir={tmp_path}")
    written = json.loads((tmp_path / "metrics.json").read_text())
    assert [without_seconds(row) for row in written["history"]] == rows
    assert without_seconds(written["last"]) == rows[-1]
    assert written["best"]["val_accuracy"] == max(row["val_accuracy"] for row in rows)
    assert written["hyperparameters"]["learning_rate"] == 3


def test_a_loss_that_is_no_number_is_null(tmp_path: Path) -> None:
    flags = ("--epochs=1", "--optimizer=sgd", "--learning_rate=1e30", "--batch_norm=off")
    run_here(*flags, f"--output_dir={tmp_path}")
    written = json.loads((tmp_path / "metrics.json").read_text(), parse_constant=pytest.fail)
    assert written["last"]["val_loss"] is None


def test_a_run_that_dies_before_its_checkpoint_leaves_the_same_in_the_end(tmp_path: Path) -> None:
    class Death(Exception):
        """Stands for whatever ends a run."""

    def log(row: Row) -> None:
        if row["epoch"] == 3:
            raise Death

    run_here(*SHAKY, f"--output_dir={tmp_path / 'whole'}")
    flags = (*SHAKY, f"--output_dir={tmp_path / 'died'}", f"--checkpoint_dir={tmp_path / 'c'}")
    args = arguments(*flags)
    with pytest.raises(Death):
        train(args, *prepare(args), log)
    run_here(*flags)
    whole, died = (torch.load(tmp_path / name / "best.pt") for name in ("whole", "died"))
    assert whole["epoch"] == died["epoch"]
    assert all(torch.equal(whole["model"][key], died["model"][key]) for key in whole["model"])


def test_the_folder_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOYER_OUTPUT_DIR", "/somewhere")
    assert parse_args([]).output_dir == "/somewhere"
    assert "output_dir" not in parse_args([]).hyperparameters()


def test_the_data_folder_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOYER_DATA_DIR", "/datasets")
    assert parse_args([]).data == "/datasets"
    assert parse_args(["--data=/else"]).data == "/else"
