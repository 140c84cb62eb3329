"""How long a request waits, from one agent to two thousand, and what the server needs for it."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.backend.client import Client
from tests.bench.figures import Figure
from tests.bench.load.fleet import LINES, PROJECT, Fleet, Member
from tests.conftest import serve_backend

SWEEP = {
    "program": "train.py",
    "method": "random",
    "metric": {"name": "loss", "goal": "minimize"},
    "parameters": {"x": {"min": 0.0, "max": 1.0}},
    "run_cap": 100_000,
}
COUNT_LINES = (
    "query L($project: String!, $run: String!)"
    " { project(name: $project) { run(name: $run) { historyLineCount } } }"
)
WORKING_SECONDS = 30.0
ROUNDS = 300


@dataclass(frozen=True)
class Goal:
    """Milliseconds that half of the requests, and 99 of 100, may take."""

    half: float | None
    most: float | None


ONE = Goal(2, 5)
LOGGING = {256: Goal(5, 50), 1000: Goal(10, 100)}
STARTING = Goal(50, 300)
TABLE = (64, 256, 512, 1000, 2000)
MOST_MIB = 150.0
MANY_LINES, WRITERS = 1_000_000, 20


class Use:
    """What the server and the agents take of the machine: which of them limits the other."""

    def __init__(self, processes: tuple[psutil.Process, psutil.Process]) -> None:
        self._processes = processes
        self._begun, self._before = time.monotonic(), self._seconds()
        psutil.cpu_percent()

    def describe(self) -> str:
        """Return it since the beginning, in cores; others' work is in the machine's share alone."""
        passed = time.monotonic() - self._begun
        server, agents = (
            (after - before) / passed
            for after, before in zip(self._seconds(), self._before, strict=True)
        )
        busy = psutil.cpu_percent()
        return f"server {server:.2f} cores, agents {agents:.2f}, machine {busy:.0f} % busy"

    def _seconds(self) -> list[float]:
        return [sum(process.cpu_times()[:2]) for process in self._processes]


def bench_load(folder: Path) -> list[Figure]:
    """Return the figures of one agent, of 256 that log or start, and of a thousand."""
    found = asyncio.run(_one(folder / "one"))
    found += asyncio.run(_crowd(folder / "starting", 256, 1.0, 0.0))
    for count in LOGGING:
        found += asyncio.run(_crowd(folder / str(count), count, 10.0, WORKING_SECONDS))
    return found


def bench_load_table(folder: Path) -> list[Figure]:
    """Return the figures of 64 to 2,000 agents that log."""
    found = []
    for count in TABLE:
        found += asyncio.run(_crowd(folder / str(count), count, 10.0, WORKING_SECONDS))
    return found


def bench_load_lines(folder: Path) -> list[Figure]:
    """Return what a million lines of history change in the times of requests and the memory."""
    return asyncio.run(_many_lines(folder / "lines"))


@contextmanager
def _served(folder: Path) -> Iterator[Fleet]:
    backend = serve_backend(folder, afresh=True)
    try:
        yield Fleet(backend, Client.of(backend, PROJECT).create_sweep(SWEEP))
    finally:
        backend.end()


async def _one(folder: Path) -> list[Figure]:
    with _served(folder) as fleet:
        (member,) = await fleet.start(1, 0.0)
        for _ in range(ROUNDS):
            await member.beat(time.monotonic())
            await member.log(time.monotonic())
        return [
            figure
            for kind in ("heartbeat", "file_stream")
            for figure in _figures(f"1 agent, {kind}", fleet.milliseconds[kind], ONE)
        ]


async def _crowd(folder: Path, count: int, start: float, seconds: float) -> list[Figure]:
    with _served(folder) as fleet:
        server = psutil.Process(fleet.backend.process.pid)
        members = await fleet.start(count, start)
        begun = [took for kind in list(fleet.milliseconds) for took in fleet.milliseconds[kind]]
        if not seconds:
            return _figures(f"{count} agents start in {start:g} s", begun, STARTING)
        use = Use((server, psutil.Process()))
        await fleet.work(members, seconds)
        used = use.describe()
        took = fleet.milliseconds["heartbeat"] + fleet.milliseconds["file_stream"]
        figures = _figures(f"{count} agents log", took, LOGGING.get(count, Goal(None, None)))
        mib = server.memory_info().rss / 2**20
        return [
            *figures,
            Figure(f"{count} agents log, server's memory", mib, "MiB", MOST_MIB, used),
            Figure(f"{count} agents log, lines lost", _count_lost(fleet, members), "lines", 0, ""),
        ]


async def _many_lines(folder: Path) -> list[Figure]:
    """Have agents log one chunk after the other, as fast as they are answered."""
    with _served(folder) as fleet:
        server = psutil.Process(fleet.backend.process.pid)
        members = await fleet.start(WRITERS, 1.0)
        figures = []
        for part in ("first", "second", "third", "fourth"):
            fleet.milliseconds.clear()
            await asyncio.gather(*(_write(member) for member in members))
            name = f"{part} {MANY_LINES // 4:,} lines"
            figures += _figures(name, fleet.milliseconds["file_stream"], Goal(None, None))
            mib = server.memory_info().rss / 2**20
            figures.append(Figure(f"{name}, server's memory", mib, "MiB", MOST_MIB, ""))
        return [*figures, Figure("lines lost", _count_lost(fleet, members), "lines", 0, "")]


async def _write(member: Member) -> None:
    for _ in range(MANY_LINES // 4 // WRITERS // LINES):
        await member.log(time.monotonic())


def _count_lost(fleet: Fleet, members: list) -> int:
    client = Client.of(fleet.backend, PROJECT)
    kept = sum(
        client.ask(COUNT_LINES, run=member.run)["project"]["run"]["historyLineCount"]
        for member in members
    )
    return fleet.lines - kept


def _figures(name: str, took: list[float], goal: Goal) -> list[Figure]:
    most = statistics.quantiles(took, n=100)[-1]
    return [
        Figure(f"{name}, median", statistics.median(took), "ms", goal.half, f"n={len(took)}"),
        Figure(f"{name}, 99 %", most, "ms", goal.most, f"worst {max(took):.0f} ms"),
    ]
