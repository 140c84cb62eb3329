"""What a run costs beside its training, and how soon the first one begins."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.bench.agents import METRIC
from tests.bench.bed import DEPLOYER, Bed, make_bed
from tests.bench.figures import Figure, compare

ROOT = Path(__file__).parents[2]
COMMAND = ["${env}", "${interpreter}", "-m", "trainer", "${args}"]
DIGITS = {
    "program": "trainer/__main__.py",
    "command": COMMAND,
    "method": "grid",
    "metric": {"name": "val_accuracy", "goal": "maximize"},
    "parameters": {"dataset": {"value": "digits"}, "learning_rate": {"values": [0.01]}},
}
SHORT_RUNS, SHORT_AGENTS = 200, 4
SHORT_SWEEP = {
    "method": "grid",
    "metric": METRIC,
    "parameters": {"layers": {"values": list(range(SHORT_RUNS))}, "seconds": {"value": 0.1}},
}


def bench_time_to_begin(folder: Path) -> list[Figure]:
    """Time `up` to the first metric against the trainer's own, started by hand; both cold."""
    with make_bed(folder, DIGITS) as bed:
        shutil.copytree(ROOT / "trainer", folder / "trainer")
        name = "up to first metric / bare trainer's own"
        return [compare(name, 1.5, 3, lambda: _begin_by_up(bed), lambda: _begin_bare(bed))]


def _begin_by_up(bed: Bed) -> float:
    known, start = bed.sweeps(), time.perf_counter()
    command = [DEPLOYER, "up", "sweep.yaml", "--replicas", "1", "--new", "--plain"]
    with _start(bed, command) as process:
        bed.wait_for_metric(bed.wait_for_sweep(known))
        seconds = time.perf_counter() - start
        assert process.wait() == 0
    return seconds


def _begin_bare(bed: Bed) -> float:
    run = f"bare-{os.urandom(3).hex()}"
    start = time.perf_counter()
    command = [DEPLOYER.with_name("python"), "-m", "trainer", "--dataset=digits"]
    with _start(bed, [*command, "--learning_rate=0.01"], {"WANDB_RUN_ID": run}) as process:
        while not bed.has_metric(run):
            time.sleep(0.05)
        seconds = time.perf_counter() - start
        assert process.wait() == 0
    return seconds


def _start(
    bed: Bed, command: list[Any], variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=bed.folder,
        env={**bed.environment, **(variables or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def bench_demo(folder: Path) -> list[Figure]:
    """Time `make demo`'s sweep, 12 runs with 2 agents, in a project that has not run one yet."""
    config = yaml.safe_load((ROOT / "sweeps/digits.yaml").read_text())
    with make_bed(folder, config) as bed:
        shutil.copytree(ROOT / "trainer", folder / "trainer")
        seconds = [_time_demo(bed) for _ in range(2)]
    return [
        Figure("make demo's sweep, the first time", seconds[0], "s", 20.0, "12 runs, 2 agents"),
        Figure("make demo's sweep, again", seconds[1], "s", 20.0, "12 runs, 2 agents"),
    ]


def _time_demo(bed: Bed) -> float:
    start = time.perf_counter()
    bed.deployer("up", "sweep.yaml", "--replicas", "2", "--new", "--plain")
    return time.perf_counter() - start


def bench_short_runs(folder: Path) -> list[Figure]:
    """Count the runs of 0.1 s that four agents finish in a minute, and say what limits them."""
    with make_bed(folder, SHORT_SWEEP) as bed:
        known = bed.sweeps()
        bed.deployer("up", "sweep.yaml", "--replicas", str(SHORT_AGENTS), "--new", "--detach")
        sweep = bed.wait_for_sweep(known)
        psutil.cpu_percent()
        start = time.perf_counter()
        bed.wait_for_state(sweep, "FINISHED")
        seconds, busy = time.perf_counter() - start, psutil.cpu_percent()
    detail = f"{SHORT_RUNS} runs, {SHORT_AGENTS} agents; {os.cpu_count()} cores {busy:.0f} % busy"
    return [Figure("runs of 0.1 s", 60 * SHORT_RUNS / seconds, "/min", None, detail)]
