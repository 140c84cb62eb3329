"""How many requests our agents make, against stock agents on the same server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from deployer.agent.launcher import STOCK_SECONDS, choose_idle_wait
from tests.bench.agents import METRIC
from tests.bench.bed import Bed, make_bed
from tests.bench.figures import Figure
from tests.faults.proxy import FaultProxy
from tests.stock import start_wandb_agent, wandb_sweep

RUNS = 12
HOUR = 3600.0
SWEEP = {
    "method": "grid",
    "metric": METRIC,
    "parameters": {"layers": {"values": list(range(RUNS))}},
}


def bench_traffic(folder: Path) -> list[Figure]:
    """Count the requests of a whole sweep by one agent; work out those of an idle hour."""
    with make_bed(folder, SWEEP) as bed, FaultProxy(bed.backend.url) as proxy:
        through = replace(bed, backend=replace(bed.backend, url=proxy.url))
        ours = _count(proxy, bed, lambda: _run_ours(through))
        stock = _count(proxy, bed, lambda: _run_stock(through))
    asked, usual = count_idle_requests(), HOUR / STOCK_SECONDS
    detail = f"{ours / RUNS:.1f} against {stock / RUNS:.1f}, {RUNS} runs, the sweep's own included"
    return [
        Figure("requests per run / stock", ours / stock, "times", 1.5, detail),
        Figure(
            "requests per idle hour / stock",
            asked / usual,
            "times",
            1.1,
            f"{asked} against {usual:.0f}, worked out from the waits",
        ),
    ]


def count_idle_requests() -> int:
    """Return how often an agent without work asks in an hour."""
    passed, asked = 0.0, 0
    while passed < HOUR:
        passed += choose_idle_wait(passed)
        asked += 1
    return asked


def _count(proxy: FaultProxy, bed: Bed, act: Callable[[], None]) -> int:
    known, before = bed.sweeps(), len(proxy.journal)
    act()
    bed.wait_for_state(bed.wait_for_sweep(known), "FINISHED")
    time.sleep(3.0)  # what agents say when they leave
    return len(proxy.journal) - before


def _run_ours(bed: Bed) -> None:
    bed.deployer("up", "sweep.yaml", "--replicas", "1", "--new", "--detach")


def _run_stock(bed: Bed) -> None:
    path = wandb_sweep(bed.backend, bed.folder / "sweep.yaml", bed.client.project)
    assert start_wandb_agent(bed.backend, bed.folder, path).wait() == 0
