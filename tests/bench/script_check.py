"""What the check of a sweep against its script costs beyond the script's own import."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.figures import Figure

ROUNDS = 5
GOAL_SECONDS = 0.5
SCRIPT = """import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.parse_args()
"""
SWEEP = "program: train.py\nmethod: grid\nparameters: {lr: {values: [0.1, 1]}}\n"


def bench_script_check(folder: Path) -> list[Figure]:
    """Compare `sweep check` with `--no-check` and the script's own start."""
    (folder / "train.py").write_text(SCRIPT)
    (folder / "sweep.yaml").write_text(SWEEP)
    check = [str(Path(sys.executable).with_name("deployer")), "sweep", "check", "sweep.yaml"]
    script = [sys.executable, "train.py"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    home = {**os.environ, "PATH": path, "DEPLOYER_HOME": str(folder / "home")}

    def measure() -> tuple[float, float, float]:
        plain = _seconds([*check, "--no-check"], folder, home)
        return plain, _seconds(script, folder, home), _seconds(check, folder, home)

    measure()  # once unmeasured, so that files are in the cache
    rows = [measure() for _ in range(ROUNDS)]
    beyond = statistics.median(asked - plain - alone for plain, alone, asked in rows)
    plain, alone, _ = (statistics.median(column) for column in zip(*rows, strict=True))
    detail = f"the script's own start {alone:.2f} s, --no-check {plain:.2f} s, n={ROUNDS}"
    return [Figure("sweep check beyond the script's import", beyond, "s", GOAL_SECONDS, detail)]


def _seconds(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=dict(environment), check=True, capture_output=True)
    return time.perf_counter() - start
