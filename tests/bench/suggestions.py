"""How long an agent waits for its next configuration where a model chooses it."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import yaml

from tests.backend.client import UPSERT_SWEEP, Client
from tests.bench.bed import make_bed
from tests.bench.figures import Figure

FINISHED_RUNS = 1000
ROUNDS = 20
GOAL_MILLISECONDS = 20.0
# Agents and the seconds between their requests: a stock agent asks every 5.2 s if its runs do
# nothing, eight ask every 2.5 s if theirs take twenty seconds.
PACES = ((1, 5.2), (8, 2.5))
DRAWN: dict[str, Any] = {
    "program": "train.py",
    "method": "random",
    "metric": {"name": "loss", "goal": "minimize"},
    "parameters": {
        "lr": {"distribution": "log_uniform_values", "min": 1e-5, "max": 1.0},
        "width": {"min": 1, "max": 512},
        "drop": {"min": 0.0, "max": 0.9},
        "decay": {"distribution": "log_uniform_values", "min": 1e-6, "max": 0.1},
        "choice": {"values": ["relu", "tanh", "gelu"]},
    },
}


def bench_request_for_work(folder: Path) -> list[Figure]:
    """Time the answer to an agent of a bayes sweep that has its thousandth run behind it."""
    with make_bed(folder, DRAWN) as bed:
        sweep = bed.client.create_sweep(DRAWN)
        _run_through(bed.client, sweep)
        chosen = yaml.safe_dump({**DRAWN, "method": "bayes"})
        bed.client.ask(UPSERT_SWEEP, id=bed.client.sweep(sweep)["id"], config=chosen)
        return [_measure(bed.client, sweep, *pace) for pace in PACES]


def _run_through(client: Client, sweep: str) -> None:
    agent = client.create_agent(sweep)
    for number in range(FINISHED_RUNS):
        command = client.heartbeat(agent)[0]
        _work(client, command, number / FINISHED_RUNS)


def _work(client: Client, command: dict[str, Any], loss: float) -> None:
    client.init_run(command["run_id"])
    client.log(command["run_id"], [{"_step": 0, "loss": loss}])
    client.finish(command["run_id"])


def _measure(client: Client, sweep: str, count: int, seconds: float) -> Figure:
    """Let agents end their runs in turn and ask for the next, as often as agents do."""
    agents = [client.create_agent(sweep, f"host-{number}") for number in range(count)]
    at_work = [client.heartbeat(agent)[0] for agent in agents]
    milliseconds = []
    for turn in range(ROUNDS):
        place = turn % count
        _work(client, at_work[place], turn / ROUNDS)
        time.sleep(seconds)
        start = time.perf_counter()
        at_work[place] = client.heartbeat(agents[place])[0]
        milliseconds.append(1000 * (time.perf_counter() - start))
    for command in at_work:
        _work(client, command, 1.0)
    return Figure(
        f"request for work, bayes, agents: {count}",
        statistics.median(milliseconds),
        "ms",
        GOAL_MILLISECONDS,
        f"at {FINISHED_RUNS} runs, one in {seconds} s, slowest {max(milliseconds):.0f} ms",
    )
