"""Our agents against stock `wandb agent` processes, on the same server with the same script."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from subprocess import DEVNULL

from tests.bench.bed import DEPLOYER, Bed, make_bed
from tests.bench.figures import Figure, compare
from tests.stock import start_wandb_agent, wandb_sweep
from tests.users_python import create_environment, install_wandb

METRIC = {"name": "loss", "goal": "minimize"}
ONE_RUN = {"method": "grid", "metric": METRIC, "parameters": {"lr": {"values": [0.1]}}}
NULL_RUNS = 24
NULL_SWEEP = {
    "method": "grid",
    "metric": METRIC,
    "parameters": {"layers": {"values": list(range(NULL_RUNS))}},
}


def bench_first_metric(folder: Path) -> list[Figure]:
    """Time `up` to the first metric on the server, against `wandb sweep` and `wandb agent`."""
    with make_bed(folder, ONE_RUN) as bed:
        figure = compare(
            "up to first metric / wandb sweep + agent",
            1.15,
            5,
            lambda: _first_metric_of_up(bed),
            lambda: _first_metric_by_hand(bed),
        )
    return [figure]


def _first_metric_of_up(bed: Bed) -> float:
    known = bed.sweeps()
    start = time.perf_counter()
    command = [DEPLOYER, "up", "sweep.yaml", "--replicas", "1", "--new", "--plain"]
    with subprocess.Popen(
        command,
        cwd=bed.folder,
        env=bed.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        bed.wait_for_metric(bed.wait_for_sweep(known))
        seconds = time.perf_counter() - start
        assert process.wait() == 0
    return seconds


def _first_metric_by_hand(bed: Bed) -> float:
    start = time.perf_counter()
    path = wandb_sweep(bed.backend, bed.folder / "sweep.yaml", bed.client.project)
    agent = start_wandb_agent(bed.backend, bed.folder, path)
    bed.wait_for_metric(path.rpartition("/")[2])
    seconds = time.perf_counter() - start
    assert agent.wait() == 0
    return seconds


def bench_null_runs(folder: Path) -> list[Figure]:
    """Time a sweep of runs that do nothing, from its creation to FINISHED, with two agents."""
    with make_bed(folder, NULL_SWEEP) as bed:
        return _compare_null_runs(bed, f"{NULL_RUNS} null runs, 2 agents / 2 stock", 0.12)


def bench_torch_runs(folder: Path) -> list[Figure]:
    """Time the same with a trainer that imports torch and does nothing with it."""
    with make_bed(folder, NULL_SWEEP) as bed:
        trainer = folder / "train.py"
        trainer.write_text(f"import torch\n{trainer.read_text()}")
        return _compare_null_runs(bed, f"{NULL_RUNS} runs that import torch / stock", 0.15)


def bench_users_null_runs(folder: Path) -> list[Figure]:
    """Time null runs in an environment that has wandb and lacks deployer."""
    return _bench_users_python(folder, "null", "", 0.12)


def bench_users_torch_runs(folder: Path) -> list[Figure]:
    """Time runs that import torch in such an environment."""
    return _bench_users_python(folder, "torch", "import torch\n", 0.15)


def _bench_users_python(folder: Path, what: str, first: str, goal: float) -> list[Figure]:
    python = create_environment(folder / "users-own")
    install_wandb(python)
    lacking = subprocess.run([python, "-c", "import deployer.errors"], cwd=folder, stderr=DEVNULL)
    assert lacking.returncode, "the user's environment has deployer"
    with make_bed(folder, NULL_SWEEP) as bed:
        trainer, settings = folder / "train.py", folder / "deployer.yaml"
        trainer.write_text(first + trainer.read_text())
        settings.write_text(f"{settings.read_text()}local: {{python: {python}}}\n")
        name = f"{NULL_RUNS} {what} runs in a Python without deployer / stock"
        return _compare_null_runs(bed, name, goal)


def _compare_null_runs(bed: Bed, name: str, goal: float) -> list[Figure]:
    """Each sweep begins with parents of its own; what they preload is part of its time."""
    return [compare(name, goal, 1, lambda: _null_runs_of_up(bed), lambda: _null_runs_by_hand(bed))]


def _null_runs_of_up(bed: Bed) -> float:
    known = bed.sweeps()
    start = time.perf_counter()
    bed.deployer("up", "sweep.yaml", "--replicas", "2", "--new", "--detach")
    bed.wait_for_state(bed.wait_for_sweep(known), "FINISHED")
    return time.perf_counter() - start


def _null_runs_by_hand(bed: Bed) -> float:
    start = time.perf_counter()
    path = wandb_sweep(bed.backend, bed.folder / "sweep.yaml", bed.client.project)
    agents = [start_wandb_agent(bed.backend, bed.folder, path) for _ in range(2)]
    bed.wait_for_state(path.rpartition("/")[2], "FINISHED")
    seconds = time.perf_counter() - start
    for agent in agents:
        agent.wait()
    return seconds
