"""One file per run, from which an interrupted run goes on with exactly the same numbers."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.swa_utils import AveragedModel

from trainer.atomic import replace_file
from trainer.errors import TrainerError

Row = dict[str, float | int]


@dataclass
class Progress:
    """All that changes while a run trains; `history` has a row of metrics for each epoch.

    `average` follows the model's weights; where there is one, it is measured and kept.
    """

    model: nn.Module
    optimizer: Optimizer
    scheduler: LRScheduler
    scaler: GradScaler
    average: AveragedModel | None = None
    history: list[Row] = field(default_factory=list)

    @property
    def epoch(self) -> int:
        """The number of epochs that are done."""
        return len(self.history)

    @property
    def result(self) -> nn.Module:
        """The model that is measured and kept."""
        return self.model if self.average is None else self.average.module

    def state(self, hyperparameters: dict[str, object]) -> dict[str, Any]:
        """Return everything that the next epoch depends on, random numbers included."""
        return {
            "hyperparameters": hyperparameters,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "average": self.average and self.average.state_dict(),
            "history": self.history,
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        if self.average:
            self.average.load_state_dict(state["average"])
        self.history = state["history"]
        torch.set_rng_state(state["random"].cpu())
        if torch.cuda.is_available() and state["random_cuda"]:
            torch.cuda.set_rng_state_all([random.cpu() for random in state["random_cuda"]])


def save_checkpoint(folder: Path, progress: Progress, hyperparameters: dict[str, object]) -> None:
    """Write the checkpoint so that a crash at any moment leaves the old one or the new one."""
    # By its path: an interrupt during a write to an open file is a RuntimeError of torch.
    state = progress.state(hyperparameters)
    replace_file(folder / "checkpoint.pt", partial(torch.save, state))


def load_checkpoint(
    folder: Path, progress: Progress, hyperparameters: dict[str, object], device: torch.device
) -> None:
    """Continue from the folder's checkpoint if there is one.

    Raises TrainerError if it belongs to a run with other hyperparameters.
    """
    path = folder / "checkpoint.pt"
    if not path.exists():
        return
    state = torch.load(path, map_location=device, weights_only=True)
    before = state["hyperparameters"]
    changed = [name for name, value in hyperparameters.items() if before.get(name) != value]
    if changed:
        raise TrainerError(
            f"{path} is of a run with another {', '.join(changed)}",
            "give every run a checkpoint folder of its own, or delete this one",
        )
    progress.restore(state)
