"""The command line: what W&B's agent writes is read as it was meant, and nothing is guessed."""

from __future__ import annotations

import pytest

from trainer.args import parse_args


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("--batch_norm=True", True),
        ("--batch_norm=False", False),
        ("--batch_norm=on", True),
        ("--batch_norm=off", False),
        ("--batch_norm=0", False),
        ("--batch-norm=false", False),
        ("--batch_norm", True),
    ],
)
def test_booleans_are_read_as_text(word: str, expected: bool) -> None:
    assert parse_args([word]).batch_norm is expected


@pytest.mark.parametrize("word", ["--batch_size=64", "--batch-size=64", "--batch_size=64.0"])
def test_whole_numbers_in_every_spelling_of_the_agent(word: str) -> None:
    batch_size = parse_args([word]).batch_size
    assert batch_size == 64
    assert isinstance(batch_size, int)


def test_hyphens_in_values_stay() -> None:
    assert parse_args(["--data=/a-b/c-d"]).data == "/a-b/c-d"
    assert parse_args(["--data", "/a-b/c-d"]).data == "/a-b/c-d"


def test_the_articles_parameters_are_known() -> None:
    args = parse_args(
        [
            "--dataset=cifar10",
            "--batch_norm=True",
            "--batch_size=512",
            "--data_aug_cutout_size=5",
            "--max_learning_rate=0.6",
            "--momentum=0.99",
        ]
    )
    assert (args.cutout, args.learning_rate, args.momentum) == (5, 0.6, 0.99)
    assert (args.model, args.epochs, args.width, args.augment) == ("resnet9", 24, 64, True)
    assert (args.optimizer, args.weight_decay) == ("sgd", 5e-4)


def test_defaults_follow_data_set_model_and_optimizer() -> None:
    assert parse_args([]).model == "mlp"
    assert parse_args(["--dataset=mnist"]).model == "cnn"
    assert parse_args(["--dataset", "mnist", "--model", "mlp"]).width == 128
    assert parse_args(["--optimizer=sgd"]).learning_rate == 0.4
    assert parse_args(["--dataset=cifar10", "--optimizer=adam"]).learning_rate == 0.01


def test_checkpoint_folder_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOYER_CHECKPOINT_DIR", "/somewhere")
    assert parse_args([]).checkpoint_dir == "/somewhere"
    assert parse_args(["--checkpoint_dir=/else"]).checkpoint_dir == "/else"


def test_plumbing_is_no_hyperparameter() -> None:
    names = parse_args([]).hyperparameters().keys()
    assert {"dataset", "learning_rate", "seed"} <= names
    assert not names & {"data", "device", "checkpoint_dir", "no_wandb", "dry_run", "deterministic"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--learning_rat=1"], "unrecognized arguments: --learning_rat=1"),
        (["--see=1"], "unrecognized arguments: --see=1"),
        (["--batch_norm=maybe"], "argument --batch_norm: 'maybe' is neither True nor False"),
        (["--batch_size=0"], "argument --batch_size: must be at least 1"),
        (["--batch_size=1.5"], "argument --batch_size: '1.5' is not a whole number"),
        (["--learning_rate=fast"], "'fast' is not a number"),
        (["--learning_rate=nan"], "nan is not a finite number from 0 up"),
        (["--dropout=1"], "argument --dropout: 1 is not below 1"),
        (["--dataset=imagenet"], "argument --dataset: invalid choice: 'imagenet'"),
        (["--optimizer=lion"], "argument --optimizer: invalid choice: 'lion'"),
    ],
)
def test_mistakes_are_refused(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_of:
        parse_args(words)
    assert exit_of.value.code == 2
    assert problem in capsys.readouterr().err
