"""What an idle supervisor and an idle backend hold in memory."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil

from tests.bench.bed import Bed, make_bed
from tests.bench.figures import Figure

LONG_RUN = {
    "method": "grid",
    "parameters": {"lr": {"values": [0.1]}, "seconds": {"value": 3600.0}},
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
