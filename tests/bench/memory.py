"""What a supervisor, a backend and warm runs hold in memory."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil

from deployer.agent.host.processes import AGENT_NAME
from tests.bench.bed import Bed, make_bed
from tests.bench.figures import Figure

LONG_RUN = {
    "method": "grid",
    "parameters": {"lr": {"values": [0.1]}, "seconds": {"value": 3600.0}},
}
TWO_RUNS = {
    "method": "grid",
    "parameters": {"layers": {"values": [1, 2]}, "seconds": {"value": 3600.0}},
}
MIB = 1024 * 1024


def bench_memory(folder: Path) -> list[Figure]:
    """Measure the resident memory of a supervisor with a run at work, and of the backend."""
    with make_bed(folder, LONG_RUN) as bed:
        bed.deployer("up", "sweep.yaml", "--replicas", "1", "--detach")
        bed.wait_for_metric(bed.wait_for_sweep([]))
        supervisor = _resident_mib(_supervisor_id(bed))
        backend = _resident_mib(bed.backend.process.pid)
    return [
        Figure("supervisor, resident", supervisor, "MiB", 20.0, "with one run at work"),
        Figure("backend, resident", backend, "MiB", None, "with one run at work"),
    ]


def _supervisor_id(bed: Bed) -> int:
    while True:
        agents = json.loads(bed.deployer("agents", "list", "-o", "json").stdout)
        if agents and agents[0]["process_id"]:
            return int(agents[0]["process_id"])
        time.sleep(0.1)


def _resident_mib(process_id: int) -> float:
    return float(psutil.Process(process_id).memory_info().rss) / MIB


def bench_warm_memory(folder: Path) -> list[Figure]:
    """Compare two warm runs that import torch, and all that they are forked from, with cold ones.

    Each page counts in parts for those that share it; supervisors and agents are left out.
    """
    mib = {}
    for warm in (True, False):
        place = folder / f"warm-{warm}"
        with make_bed(place, TWO_RUNS, warm=warm) as bed:
            trainer = place / "train.py"
            trainer.write_text(f"import torch\n{trainer.read_text()}")
            mib[warm] = _measure_two_runs(bed, warm)
    detail = f"{mib[True]:.0f} MiB against {mib[False]:.0f} MiB"
    return [Figure("two warm runs / two cold ones, PSS", mib[True] / mib[False], "", 1.1, detail)]


def _measure_two_runs(bed: Bed, warm: bool) -> float:
    path = bed.deployer("sweep", "create", "sweep.yaml").stdout.strip()
    bed.deployer("agents", "up", path, "--replicas", "2")
    for run in bed.wait_for_runs(path.rpartition("/")[2], 2):
        while not bed.has_metric(run):
            time.sleep(0.1)
    agents = json.loads(bed.deployer("agents", "list", path, "-o", "json").stdout)
    living = [agent for agent in agents if agent["process_id"]]
    starts = {agent["run_start"] for agent in living}
    assert starts == {"warm"} if warm else "warm" not in starts, starts
    processes = [p for agent in living for p in _list_of_runs(int(agent["process_id"]))]
    return float(sum(process.memory_full_info().pss for process in processes)) / MIB


def _list_of_runs(supervisor: int) -> list[psutil.Process]:
    """Return what is below a supervisor, but for its agent and the agent's own wandb-core."""
    found = psutil.Process(supervisor).children(recursive=True)
    agents = [p.pid for p in found if p.name() == AGENT_NAME]
    return [
        p
        for p in found
        if p.pid not in agents and not (p.ppid() in agents and p.name() == "wandb-core")
    ]
