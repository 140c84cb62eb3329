"""A sweep of ten thousand runs: how long every question about it takes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.backend.bench import KEY
from tests.backend.client import Client
from tests.bench.figures import Figure
from tests.bench.page import fill_sweep
from tests.conftest import ServedBackend, serve_backend
from tests.stock import run_program, stock_environment

RUNS = 10_000
START_SECONDS, ANSWER_SECONDS = 2.0, 1.0
COMMANDS = ("results", "results -o json", "results -o csv", "sweep show")
AGENTS_FIRST = """
query SweepWithRuns($project: String, $sweep: String!, $specs: [JSONString!]!) {
  project(name: $project) { sweep(sweepName: $sweep) { config bestLoss runs { edges { node {
    name state config summaryMetrics sampledHistory(specs: $specs) } } } } } }
"""
# The public API's own pages; what a program takes to load the SDK is not counted.
PAGES = """
import sys, time, wandb
api, place = wandb.Api(), sys.argv[1]
below = {"summary_metrics.loss": {"$lt": 0.5}}
for options in ({}, {"order": "+summary_metrics.loss"}, {"filters": below}):
    begun = time.perf_counter()
    api.runs(place, per_page=50, **options)[0]
    print(time.perf_counter() - begun)
begun = time.perf_counter()
api.sweep(f"{place}/{sys.argv[2]}").best_run()
print(time.perf_counter() - begun)
"""
PAGE_NAMES = ("Api().runs()", "Api().runs() by metric", "Api().runs() filtered", "Sweep.best_run()")


def bench_big_sweep(folder: Path) -> list[Figure]:
    """Measure the backend's start, what agents and the public API ask, and the commands."""
    sweep = fill_sweep(folder, RUNS).name
    begun = time.perf_counter()
    backend = serve_backend(folder, afresh=True)
    start = Figure("start with 10,000 runs", time.perf_counter() - begun, "s", START_SECONDS, "")
    try:
        return [start, *_ask(backend, sweep), *_read(backend, sweep), *_run(backend, sweep, folder)]
    finally:
        backend.end()


def _ask(backend: ServedBackend, sweep: str) -> Iterator[Figure]:
    client = Client(backend.url, KEY, "me", "p")
    yield _figure(
        "an agent's first question", lambda: client.ask(AGENTS_FIRST, sweep=sweep, specs="{}")
    )
    agent = client.create_agent(sweep)
    yield _figure("a request for work", lambda: client.heartbeat(agent))


def _read(backend: ServedBackend, sweep: str) -> Iterator[Figure]:
    said = run_program(_as_me(backend), PAGES, "me/p", sweep)
    for name, seconds in zip(PAGE_NAMES, said.split(), strict=True):
        yield Figure(name, float(seconds), "s", ANSWER_SECONDS, "")


def _run(backend: ServedBackend, sweep: str, folder: Path) -> Iterator[Figure]:
    home = {"HOME": str(folder), "DEPLOYER_HOME": str(folder / "home")}
    environment = {**stock_environment(_as_me(backend)), **home}
    for command in COMMANDS:
        words = [sys.executable, "-m", "deployer", *command.split(), f"me/p/{sweep}"]
        yield _figure(
            f"deployer {command}",
            lambda words=words: subprocess.run(  # type: ignore[misc]
                words, env=environment, capture_output=True, check=True
            ),
        )


def _as_me(backend: ServedBackend) -> ServedBackend:
    return ServedBackend(backend.url, KEY, "me", backend.data, backend.process)


def _figure(name: str, act: Callable[[], Any]) -> Figure:
    """Return the better of two times: the first one may load what stays."""
    taken = []
    for _ in range(2):
        begun = time.perf_counter()
        act()
        taken.append(time.perf_counter() - begun)
    return Figure(name, min(taken), "s", ANSWER_SECONDS, f"the other {max(taken):.2f} s")
