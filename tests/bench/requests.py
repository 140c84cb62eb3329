"""How long the backend takes for the requests that every run and agent makes again and again."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import requests  # noqa: TID251 - a client of its own, on one connection

from tests.backend.client import HEARTBEAT, Client, grid
from tests.bench.figures import Figure
from tests.conftest import serve_backend

ROUNDS = 100
GOAL_MS = 15.0  # an answer that waits for an acknowledgement takes 44


def bench_requests(folder: Path) -> list[Figure]:
    """Return the median time of a heartbeat and of a chunk of history, on a kept connection."""
    served = serve_backend(folder / "data")
    client = Client.of(served, "bench")
    agent = client.create_agent(client.create_sweep(grid(x=[1])))
    run = client.heartbeat(agent)[0]["run_id"]
    client.init_run(run)
    session = requests.Session()
    session.auth = ("api", served.key)

    def beat() -> None:
        variables = {"id": agent, "metrics": "{}", "runState": f'{{"{run}": true}}'}
        body = {"query": HEARTBEAT, "variables": variables}
        session.post(f"{served.url}/graphql", json=body).raise_for_status()

    def log() -> None:
        chunk = {"files": {"wandb-history.jsonl": {"offset": 0, "content": ['{"_step": 0}']}}}
        place = f"{served.url}/files/{served.entity}/bench/{run}/file_stream"
        session.post(place, json=chunk).raise_for_status()

    try:
        return [_timed("one heartbeat", beat), _timed("one chunk of history", log)]
    finally:
        session.close()
        served.process.terminate()
        served.process.wait(20)


def _timed(name: str, act: Callable[[], None]) -> Figure:
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        act()
        taken.append(1000 * (time.perf_counter() - start))
    return Figure(name, statistics.median(taken), "ms", GOAL_MS, f"n={ROUNDS}")
