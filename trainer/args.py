"""The trainer's command line. Imports no torch, so that `--help` and mistakes answer at once.

W&B's agent passes every hyperparameter as `--name=value` with the value as Python's `str()` gives
it: `True`, `1e-05`, and `64.0` where a quantised distribution made a whole number.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from trainer.values import boolean, fraction, non_negative, positive, whole

DATASETS = ("digits", "mnist", "fashion_mnist", "cifar10")
MODELS = ("mlp", "cnn", "resnet9")
OPTIMIZERS = ("sgd", "adam", "adamw", "rmsprop")
SCHEDULES = ("constant", "cosine", "one_cycle")

# What is used where the command line says nothing. cifar10's row is David Page's cifar10-fast
# (dawn.py), with the learning rate and the weight decay counted on the mean loss, not the sum.
DATASET_DEFAULTS: dict[str, dict[str, object]] = {
    "digits": {
        "model": "mlp",
        "epochs": 15,
        "batch_size": 32,
        "optimizer": "adam",
        "validation_split": 0.2,  # of few images
    },
    "mnist": {"model": "cnn", "epochs": 1, "batch_size": 64, "optimizer": "adam"},
    "fashion_mnist": {"model": "cnn", "epochs": 8, "batch_size": 64, "optimizer": "adam"},
    "cifar10": {
        "model": "resnet9",
        "epochs": 24,
        "batch_size": 512,
        "optimizer": "sgd",
        "weight_decay": 5e-4,
        "augment": True,
        "cutout": 8,
    },
}
LEARNING_RATES = {"sgd": 0.4, "adam": 0.01, "adamw": 0.01, "rmsprop": 0.003}
WIDTHS = {"mlp": 128, "cnn": 16, "resnet9": 64}

# A flag alone means true, as W&B's `${args_no_boolean_flags}` has it; else its value is read.
SWITCH: dict[str, Any] = {"type": boolean, "nargs": "?", "const": True, "metavar": "BOOL"}

# Where and how a run is executed: neither part of the W&B config nor of a checkpoint's identity.
PLUMBING = frozenset(
    {
        "data",
        "device",
        "threads",
        "compile",
        "deterministic",
        "checkpoint_dir",
        "checkpoint_every",
        "output_dir",
        "dry_run",
        "no_wandb",
    }
)


class Arguments(argparse.Namespace):
    """The parsed command line, with every default filled in."""

    dataset: str
    model: str
    data: str
    epochs: int
    batch_size: int
    learning_rate: float
    schedule: str
    optimizer: str
    momentum: float
    nesterov: bool
    weight_decay: float
    width: int
    dropout: float
    batch_norm: bool
    label_smoothing: float
    augment: bool
    cutout: int
    alternating_flip: bool
    test_flip: bool
    whiten: bool
    dirac: bool
    ema: float
    amp: bool
    seed: int
    validation_split: float
    train_limit: int
    test_limit: int
    device: str
    threads: int
    compile: bool
    deterministic: bool
    checkpoint_dir: str
    checkpoint_every: int
    output_dir: str
    dry_run: bool
    no_wandb: bool

    def hyperparameters(self) -> dict[str, object]:
        """Return what decides the numbers of a run, without its plumbing."""
        return {name: value for name, value in vars(self).items() if name not in PLUMBING}


def parse_args(argv: Sequence[str] | None = None) -> Arguments:
    """Parse a command line (`sys.argv` by default); exit 2 with one line if it is wrong.

    Defaults depend on the data set (`DATASET_DEFAULTS`), the optimizer and the model.
    """
    words = underscored(argv)
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--dataset", default="digits")
    dataset = first.parse_known_args(words)[0].dataset
    parser = build_parser()
    parser.set_defaults(**DATASET_DEFAULTS.get(dataset, {}))
    args = parser.parse_args(words, namespace=Arguments())
    if args.learning_rate is None:
        args.learning_rate = LEARNING_RATES[args.optimizer]
    if args.width is None:
        args.width = WIDTHS[args.model]
    return args


def underscored(argv: Sequence[str] | None) -> list[str]:
    """Spell every flag with underscores, so that `--batch-size` and `--batch_size` are one."""
    words = sys.argv[1:] if argv is None else argv
    return [
        re.sub(r"^--[^=]+", lambda flag: "--" + flag[0][2:].replace("-", "_"), word)
        for word in words
    ]


def build_parser() -> argparse.ArgumentParser:
    """Build the parser; abbreviations are off, or `--s` of a sweep could mean `--seed`."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer",
        description="Train an image classifier and log it to Weights & Biases.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add_data_flags(parser)
    add_model_flags(parser)
    add_training_flags(parser)
    add_run_flags(parser)
    return parser


def add_data_flags(parser: argparse.ArgumentParser) -> None:
    """Add what is trained on."""
    add = parser.add_argument_group("data").add_argument
    add("--dataset", choices=DATASETS, default="digits", help="digits needs no download")
    add(
        "--data",
        default=os.environ.get("DEPLOYER_DATA_DIR", "data"),
        metavar="DIR",
        help="folder in torchvision's layout, or of CIFAR-10's binary version",
    )
    add(
        "--validation_split",
        type=fraction,
        default=0.1,
        metavar="SHARE",
        help="of the training images, held out for val_accuracy; "
        "with 0 that is measured on the test images",
    )
    add("--train_limit", type=whole, default=0, metavar="N", help="first N images; 0 is all")
    add("--test_limit", type=whole, default=0, metavar="N", help="first N images; 0 is all")
    add(
        "--augment",
        default=False,
        **SWITCH,
        help="random crops, and mirror images where a mirrored image keeps its class",
    )
    add(
        "--cutout",
        "--data_aug_cutout_size",
        type=whole,
        default=0,
        metavar="PIXELS",
        help="side of the square that is blanked in each training image; 0 is off",
    )
    add(
        "--alternating_flip",
        default=False,
        **SWITCH,
        help="augment mirrors an image in every second epoch, not at random",
    )
    add(
        "--test_flip",
        default=False,
        **SWITCH,
        help="measure on the mean of an image's and its mirror image's logits",
    )


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Add what is trained."""
    add = parser.add_argument_group("model").add_argument
    add("--model", choices=MODELS, help="architecture")
    add(
        "--width",
        type=positive,
        metavar="N",
        help=f"units of the mlp's layers, channels of the first convolution; default {WIDTHS}",
    )
    add("--dropout", type=fraction, default=0.0, metavar="P", help="before the last layer")
    add(
        "--batch_norm",
        default=True,
        **SWITCH,
        help="batch normalisation after every hidden layer",
    )
    add("--whiten", default=False, **SWITCH, help="frozen first layer that whitens 2x2 patches")
    add("--dirac", default=False, **SWITCH, help="let convolutions start as the identity")


def add_training_flags(parser: argparse.ArgumentParser) -> None:
    """Add how it is trained."""
    add = parser.add_argument_group("training").add_argument
    add("--epochs", type=positive, metavar="N", help="passes over the training images")
    add("--batch_size", type=positive, metavar="N", help="images of one step")
    add("--optimizer", choices=OPTIMIZERS, help="torch.optim's")
    add(
        "--learning_rate",
        "--max_learning_rate",
        type=non_negative,
        metavar="LR",
        help=f"highest rate of the schedule, on the mean loss; default {LEARNING_RATES}",
    )
    add("--schedule", choices=SCHEDULES, default="one_cycle", help="of the learning rate")
    add("--momentum", type=fraction, default=0.9, metavar="M", help="of sgd and rmsprop")
    add(
        "--nesterov",
        default=True,
        **SWITCH,
        help="Nesterov's momentum in sgd",
    )
    add("--weight_decay", type=non_negative, default=0.0, metavar="W", help="L2 penalty")
    add("--label_smoothing", type=fraction, default=0.0, metavar="S", help="in training only")
    add(
        "--ema",
        type=fraction,
        default=0.0,
        metavar="DECAY",
        help="share of the weights' moving average that a step keeps; the average is what is "
        "measured and kept; 0 is off",
    )
    add("--seed", type=whole, default=0, help="of everything random")


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """Add where and how the run is executed."""
    add = parser.add_argument_group("run").add_argument
    add("--device", default="auto", help="auto (a GPU if there is one), cpu, cuda, cuda:1")
    add(
        "--threads",
        type=positive,
        default=1,
        metavar="N",
        help="CPU threads; one is fastest when several runs share a machine",
    )
    add(
        "--amp",
        default=False,
        **SWITCH,
        help="compute in 16 bits where it is safe: bfloat16, on GPUs before Ampere float16",
    )
    add(
        "--compile",
        default=False,
        **SWITCH,
        help="let torch.compile make faster kernels, which takes a minute and a C++ compiler",
    )
    add(
        "--deterministic",
        default=False,
        **SWITCH,
        help="on a GPU, too, compute the same numbers again, more slowly",
    )
    add(
        "--checkpoint_dir",
        default=os.environ.get("DEPLOYER_CHECKPOINT_DIR", ""),
        metavar="DIR",
        help="write checkpoints there and continue from the last one",
    )
    add(
        "--checkpoint_every",
        type=positive,
        default=1,
        metavar="N",
        help="epochs between two checkpoints; the last epoch always has one",
    )
    add(
        "--output_dir",
        default=os.environ.get("DEPLOYER_OUTPUT_DIR", ""),
        metavar="DIR",
        help="keep the best epoch's model there (best.pt) and the metrics (metrics.json)",
    )
    add(
        "--dry_run",
        default=False,
        **SWITCH,
        help="show the configuration, the model's size and a batch, then stop",
    )
    add(
        "--no_wandb",
        default=False,
        **SWITCH,
        help="print the metrics only",
    )
