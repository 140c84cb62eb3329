"""What the trainer's tests share: short runs in this process or another, and the real images."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_data import DATA, ROOT
from trainer.args import Arguments, parse_args
from trainer.checkpoint import Progress, Row
from trainer.train import prepare, train


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return the folder of real MNIST, Fashion-MNIST and CIFAR-10 images, or fail."""
    assert DATA.is_dir(), f"{DATA} is missing: set DEPLOYER_TEST_DATA, or deselect `-m 'not data'`"
    return DATA


def run_here(*flags: str) -> tuple[list[Row], Progress]:
    """Train in this process; return the rows without their seconds, and where the run ended."""
    args = arguments(*flags)
    dataset, progress = prepare(args)
    rows: list[Row] = []
    train(args, dataset, progress, rows.append)
    return [without_seconds(row) for row in rows], progress


def arguments(*flags: str) -> Arguments:
    """Parse flags of a run on the CPU."""
    return parse_args(["--device=cpu", "--no_wandb", *flags])


def without_seconds(row: Row) -> Row:
    """Drop the metrics that differ from run to run."""
    return {name: row[name] for name in row if name not in ("seconds", "train_seconds")}


def start_trainer(
    *flags: str, environment: dict[str, str] | None = None, folder: Path = ROOT
) -> subprocess.Popen[str]:
    """Start `python -m trainer` as an agent does."""
    return subprocess.Popen(
        [sys.executable, "-m", "trainer", *flags],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
