"""What a run leaves in its output folder: the best epoch's model, and every epoch's metrics."""

import json
import math
from functools import partial
from pathlib import Path

import torch

from trainer.atomic import replace_file
from trainer.checkpoint import Progress, Row

BEST = "best.pt"
METRICS = "metrics.json"


def best_row(history: list[Row]) -> Row:
    """Return the epoch of the highest accuracy on the test images, the earliest of equals."""
    return max(history, key=lambda row: row["val_accuracy"])


def summarise_best(history: list[Row]) -> dict[str, float | int]:
    """Return the best epoch for a summary whose other numbers are the last epoch's."""
    best = best_row(history)
    return {
        "best_epoch": best["epoch"],
        "best_val_accuracy": best["val_accuracy"],
        "best_val_loss": best["val_loss"],
    }


def save_outputs(folder: Path, progress: Progress, hyperparameters: dict[str, object]) -> None:
    """Write the metrics so far, and the model if its last epoch is its best.

    `best.pt` is a mapping for `torch.load`: the model's weights, how to build the model, and its
    epoch's metrics. `metrics.json` has the last epoch, the best one, and all of them.
    """
    last, best = progress.history[-1], best_row(progress.history)
    if last is best:
        state = {"model": progress.model.state_dict(), "hyperparameters": hyperparameters, **best}
        # By its path: an interrupt during a write to an open file is a RuntimeError of torch.
        replace_file(folder / BEST, partial(torch.save, state))
    content = {
        "hyperparameters": hyperparameters,
        "last": as_json(last),
        "best": as_json(best),
        "history": [as_json(row) for row in progress.history],
    }
    text = json.dumps(content, indent=2)
    replace_file(folder / METRICS, lambda path: path.write_text(text + "\n"))


def as_json(row: Row) -> dict[str, float | int | None]:
    """Return a row for JSON, which has no word for the loss of a run that diverged."""
    return {name: value if math.isfinite(value) else None for name, value in row.items()}
