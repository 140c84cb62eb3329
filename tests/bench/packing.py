"""The number of agents that `--packing auto` finds, against that of an exhaustive measurement."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

from deployer.model import SweepPath
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import list_runs
from deployer.watch.packing.measurement import list_ends
from tests.bench.agents import METRIC
from tests.bench.bed import DEPLOYER, Bed, make_bed
from tests.bench.figures import Figure

# A tiny model. Each step needs a device that serves one run at a time, for 40 % of the step: two
# agents leave it idle, four are in each other's way. What else the machine does matters little so.
TINY_MODEL = """
import argparse, fcntl, time
import numpy, wandb

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
random = numpy.random.default_rng(parser.parse_args().seed)
run = wandb.init()
images, classes = random.normal(size=(64, 32)), random.integers(0, 2, size=(64, 1))
weights = random.normal(size=(32, 1)) / 6
with open("device", "w") as device:
    for step in range(100):
        time.sleep(0.03)
        fcntl.flock(device, fcntl.LOCK_EX)
        error = 1 / (1 + numpy.exp(-images @ weights)) - classes
        weights -= 0.01 * images.T @ error
        time.sleep(0.02)
        fcntl.flock(device, fcntl.LOCK_UN)
        if step % 20 == 0:
            run.log({"loss": float(abs(error).mean())})
run.finish()
"""
SWEEP = {
    "method": "random",
    "run_cap": 100_000,
    "metric": METRIC,
    "parameters": {"seed": {"min": 0, "max": 10**6}},
}
TRIED = (1, 2, 3, 4, 6)
SECONDS = 60.0
FOUND = re.compile(r"^(\d+) agents? on this machine: (.*)$", re.MULTILINE)


def bench_packing(folder: Path) -> list[Figure]:
    """Compare how many runs finish with the number found, and with the best of all numbers."""
    with make_bed(folder, SWEEP) as bed:
        (folder / "train.py").write_text(TINY_MODEL)
        found, said = _find(bed)
        rates = {agents: _count(bed, agents) for agents in {*TRIED, found}}
    best = max(rates, key=lambda agents: rates[agents])
    figures = ", ".join(f"{agents}: {rates[agents]:.0f}" for agents in sorted(rates))
    detail = f"auto: {said}; each alone, runs/h: {figures}"
    name = f"best of all ({best}) / --packing auto ({found})"
    return [Figure(name, rates[best] / rates[found], "times", 1.1, detail)]


def _find(bed: Bed) -> tuple[int, str]:
    """Return the number that is kept, and the line that says so."""
    command = [DEPLOYER, "up", "sweep.yaml", "--packing", "auto", "--new", "--plain"]
    log = bed.folder / "auto.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            command, cwd=bed.folder, env=bed.environment, stdout=output, stderr=output
        ) as process,
    ):
        while not (found := FOUND.search(log.read_text())):
            assert process.poll() is None, log.read_text()
            time.sleep(1)
        process.terminate()
    bed.deployer("down", check=False)
    return int(found[1]), found[0]


def _count(bed: Bed, agents: int) -> float:
    """Return the runs that so many agents finish in an hour, from a minute of them."""
    known = bed.sweeps()
    bed.deployer("up", "sweep.yaml", "--replicas", str(agents), "--new", "--detach")
    sweep = bed.wait_for_sweep(known)
    path = SweepPath(bed.backend.entity, bed.client.project, sweep)
    client = Client(bed.backend.url, bed.backend.key)
    while len(list_ends(list_runs(client, path), 0.0)) < 2 * agents:
        time.sleep(0.2)
    start = time.time()
    time.sleep(SECONDS)
    ends = [end for end in list_ends(list_runs(client, path), start) if end < start + SECONDS]
    bed.deployer("down", path.sweep_id, check=False)
    return 3600 * len(ends) / SECONDS
