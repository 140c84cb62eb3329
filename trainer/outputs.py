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
    """Return the epoch of the highest accuracy in validation, the earliest of equals."""
    return max(history, key=lambda row: row["val_accuracy"])


def summarise(history: list[Row]) -> Row:
    """Return the best epoch and the seconds of all, beside the last epoch's own numbers."""
    best = best_row(history)
    names = ("epoch", "val_accuracy", "val_loss", "test_accuracy")
    summary = {f"best_{name}": best[name] for name in names if name in best}
    return {**summary, "total_seconds": round(sum(row["seconds"] for row in history), 3)}


def save_outputs(folder: Path, progress: Progress, hyperparameters: dict[str, object]) -> None:
    """Write the metrics so far, and the model if its last epoch is its best.

    `best.pt` is a mapping for `torch.load`: the model's weights, how to build the model, and its
    epoch's metrics. `metrics.json` has the last epoch, the best one, all of them and their seconds.
    """
    last, best = progress.history[-1], best_row(progress.history)
    if last is best:
        state = {"model": progress.result.state_dict(), "hyperparameters": hyperparameters, **best}
        # By its path: an interrupt during a write to an open file is a RuntimeError of torch.
        replace_file(folder / BEST, partial(torch.save, state))
    content = {
        "hyperparameters": hyperparameters,
        "last": as_json(last),
        "best": as_json(best),
        "total_seconds": summarise(progress.history)["total_seconds"],
        "history": [as_json(row) for row in progress.history],
    }
    text = json.dumps(content, indent=2)
    replace_file(folder / METRICS, lambda path: path.write_text(text + "\n"))


def as_json(row: Row) -> dict[str, float | int | None]:
    """Return a row for JSON, which has no word for the loss of a run that diverged."""
    return {name: value if math.isfinite(value) else None for name, value in row.items()}
