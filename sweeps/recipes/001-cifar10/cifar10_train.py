"""The article's way to train: the set of JOB_ID in hyperparams.yml, and a log for each job.

The network and its training are the project's trainer's, tested on the test images; the log has the
article's lines, `test acc,0.8757`. Nothing here knows W&B.
"""

import os
import sys
from pathlib import Path

import yaml

from trainer.args import parse_args
from trainer.checkpoint import Row
from trainer.train import prepare, train

# The article's names of a log's numbers; each is the last epoch's.
NAMES = {
    "train time": "train_seconds",
    "train loss": "train_loss",
    "train acc": "train_accuracy",
    "test loss": "val_loss",
    "test acc": "val_accuracy",
}


def get_hyperparameters(job_id: int) -> dict[str, object]:
    """Return the set of one job, which are counted from 1."""
    with open("hyperparams.yml") as stream:
        sets = yaml.safe_load(stream)
    found: dict[str, object] = sets[job_id - 1]["hyperparam_set"]
    return found


def write_log(path: Path, rows: list[Row]) -> None:
    """Write the last epoch's numbers, and the time of all."""
    last = rows[-1]
    numbers = {name: last[ours] for name, ours in NAMES.items()}
    numbers["test time"] = last["seconds"] - last["train_seconds"]
    numbers["total time"] = sum(row["seconds"] for row in rows)
    path.write_text("".join(f"{name},{value}\n" for name, value in numbers.items()))


def main() -> None:
    """Train with the set of JOB_ID; more flags of the trainer make it smaller."""
    job_id = int(os.environ["JOB_ID"])
    flags = [f"--{name}={value}" for name, value in get_hyperparameters(job_id).items()]
    fixed = ["--dataset=cifar10", "--validation_split=0", "--amp", "--no_wandb"]
    args = parse_args([*fixed, *flags, *sys.argv[1:]])
    rows: list[Row] = []
    train(args, *prepare(args), rows.append)
    write_log(Path(f"results_job_id_{job_id}.log"), rows)


if __name__ == "__main__":
    main()
