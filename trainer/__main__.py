"""`python -m trainer`: one run, logged to W&B, or printed only with `--no-wandb`."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainer.args import Arguments, parse_args
from trainer.errors import TrainerError
from trainer.startup import defer_compiler

if TYPE_CHECKING:
    from trainer.checkpoint import Progress, Row
    from trainer.data import Dataset


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 2 if the run cannot start.

    Ctrl-C is not caught: the traceback tells W&B that the run did not finish.
    """
    args = parse_args(argv)
    if not args.compile:
        defer_compiler()
    from trainer.train import describe, half_type, prepare

    try:
        dataset, progress = prepare(args)
        if args.amp and half_type(dataset.device) is None:
            print("--amp is off: without AVX-512 this processor is slower in 16 bits than in 32")
        if args.dry_run:
            print(describe(args, dataset, progress))
        else:
            run(args, dataset, progress)
    except TrainerError as error:
        print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)
        return 2
    return 0


def run(args: Arguments, dataset: "Dataset", progress: "Progress") -> None:
    """Train with or without W&B and print the best epoch."""
    from trainer.train import train

    best = (
        train(args, dataset, progress, show)
        if args.no_wandb
        else train_with_wandb(args, dataset, progress)
    )
    tested = f", test_accuracy {best['test_accuracy']:.4f}" if "test_accuracy" in best else ""
    print(f"best val_accuracy {best['val_accuracy']:.4f}{tested} in epoch {best['epoch']}")


def train_with_wandb(args: Arguments, dataset: "Dataset", progress: "Progress") -> "Row":
    """Train inside a W&B run whose step is the epoch, and put the best epoch in its summary."""
    import wandb

    from trainer.outputs import summarise
    from trainer.train import train

    try:
        wandb_run = wandb.init()
    except wandb.errors.UsageError as error:
        raise TrainerError(f"W&B: {error}", "`wandb login`, or --no-wandb to print only") from error
    with wandb_run:
        # A sweep's own parameters are there already, and locked.
        wandb_run.config.setdefaults(args.hyperparameters())
        rows: list[Row] = []
        delivered = wandb_run.starting_step  # W&B has a resumed run's rows before

        def log(row: "Row") -> None:
            show(row)
            rows.append(row)
            if row["epoch"] >= delivered:
                wandb_run.log(dict(row), step=int(row["epoch"]))
            # At each epoch: a run that is stopped early has a best one, too.
            wandb_run.summary.update(summarise(rows))

        return train(args, dataset, progress, log)


def show(row: "Row") -> None:
    """Print an epoch's metrics."""
    print("  ".join(f"{name} {value:.5g}" for name, value in row.items()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
