"""The page of a sweep with many runs: how long until it is usable, and what each request takes."""

from __future__ import annotations

import json
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import requests  # noqa: TID251 - a benchmark is a client of its own

from deployer.backend.data_folder import write_key
from deployer.backend.db.attempts import assign_run, end_attempt
from deployer.backend.db.lines import write_lines
from deployer.backend.db.rows import change, get
from deployer.backend.db.runs import create_agent
from deployer.backend.db.sweeps import SweepRow
from tests.backend.bench import KEY, Bench
from tests.backend.pages_browser import log_in
from tests.bench.figures import Figure
from tests.conftest import serve_backend

SIZES = {1000: 2.0, 10_000: None}  # runs, and the seconds within which the page is usable
REQUEST_SECONDS = 1.0
AGENTS, STEPS, PARAMETERS, METRICS = 50, 100, 12, 8
CURVES = 10
SPARE_RUNS = 100


def bench_page(folder: Path) -> list[Figure]:
    """Measure the page of a sweep of 1,000 and of 10,000 runs."""
    return [figure for runs in SIZES for figure in _bench_size(folder / str(runs), runs)]


def _bench_size(folder: Path, runs: int) -> Iterator[Figure]:
    sweep = fill_sweep(folder, runs)
    with _serve(folder) as (url, session):
        address = f"{url}/api/pages/me/p/sweeps/{sweep.name}"
        change = _changer(session, url, sweep)
        first = _time(lambda: session.get(address, timeout=120))
        again = [_time(lambda: session.get(address, timeout=120)) for _ in range(5)]
        changed = [_after(change, lambda: session.get(address, timeout=120)) for _ in range(3)]
        names = ",".join(f"{sweep.name}-{number}" for number in range(CURVES))
        curves = f"{url}/api/pages/me/p/curves?metric=loss&runs={names}"
        drawn = _time(lambda: session.get(curves, timeout=120))
        size = len(session.get(address, timeout=120).content) / 2**20
        named = f"page of {runs} runs: "
        goal = REQUEST_SECONDS
        detail = f"{size:.1f} MiB, {PARAMETERS} parameters, {METRICS} metrics"
        yield Figure(named + "first request", first, "s", goal, detail)
        yield Figure(named + "unchanged", statistics.median(again), "s", goal, "median of 5")
        yield Figure(named + "a run changed", statistics.median(changed), "s", goal, "median of 3")
        yield Figure(named + f"{CURVES} curves", drawn, "s", goal, f"{STEPS} steps each")
        if shutil.which("chromium") and find_spec("playwright"):
            usable = _open(url, f"/me/p/sweeps/{sweep.name}", runs)
            yield Figure(named + "usable", usable, "s", SIZES[runs], "in chromium")


def _time(act: Callable[[], requests.Response]) -> float:
    begun = time.perf_counter()
    reply = act()
    assert reply.status_code == 200, reply.text
    return time.perf_counter() - begun


def _after(change: Callable[[], None], act: Callable[[], requests.Response]) -> float:
    change()
    return _time(act)


def _changer(session: requests.Session, url: str, sweep: SweepRow) -> Callable[[], None]:
    """Return what logs another line to a run of the sweep."""
    numbers = iter(range(STEPS, 10 * STEPS))

    def change() -> None:
        content = [json.dumps({"_step": next(numbers), "loss": random.random()})]
        chunk = {"files": {"wandb-history.jsonl": {"offset": STEPS, "content": content}}}
        place = f"{url}/files/me/p/{sweep.name}-0/file_stream"
        assert session.post(place, json=chunk, auth=("api", KEY), timeout=30).ok

    return change


@contextmanager
def _serve(folder: Path) -> Iterator[tuple[str, requests.Session]]:
    served = serve_backend(folder, afresh=True)
    session = requests.Session()
    log_in(session, served.url, KEY)
    try:
        yield served.url, session
    finally:
        served.end()


def _open(url: str, place: str, runs: int) -> float:
    """Return how long a new browser takes until rows, axes and curves are drawn."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        page = browser.new_page(viewport={"width": 1400, "height": 2400})
        page.goto(f"{url}/login")
        page.fill("#key", KEY)
        page.click("button")
        page.wait_for_selector("main h1")
        begun = time.perf_counter()
        page.goto(url + place)
        page.wait_for_selector(f'table.runs[aria-rowcount="{runs + 1}"] tr[data-id]')
        for name in ("Parallel coordinates", "Curves"):
            page.wait_for_selector(f"figure:has(strong:text-is('{name}')) canvas")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => done()))")
        taken = time.perf_counter() - begun
        browser.close()
    return taken


def fill_sweep(folder: Path, runs: int) -> SweepRow:
    """Make a data folder that holds a sweep of ended runs."""
    bench = Bench(folder)
    write_key(folder, KEY)
    parameters = {f"p{n}": {"min": 0.0, "max": 1.0} for n in range(PARAMETERS)}
    sweep = bench.sweep(method="random", run_cap=runs + SPARE_RUNS, parameters=parameters)
    with bench.backend.store.transaction() as db:
        agents = [create_agent(db, bench.me, sweep, f"node-{n}", 1.0) for n in range(AGENTS)]
    for begin in range(0, runs, 500):
        with bench.backend.store.transaction() as db:
            for number in range(begin, min(runs, begin + 500)):
                _add_run(db, sweep, agents[number % AGENTS], number)
    with bench.backend.store.transaction() as db:
        found = get(db, SweepRow, sweep.id)
    bench.backend.close()
    return found


def _add_run(db: Any, sweep: SweepRow, agent: Any, number: int) -> None:
    noise = random.Random(number)
    args = {f"p{n}": noise.random() for n in range(PARAMETERS)}
    run = assign_run(db, sweep, agent, number, args, 1000.0 + number)
    summary = {f"metric{n}": noise.random() for n in range(METRICS - 1)}
    summary = {**summary, "loss": args["p0"] ** 2 + noise.random(), "_step": STEPS, "_runtime": 60}
    now = 1060.0 + number
    changes = {"started_at": now - 50, "ended_at": now, "heartbeat_at": now, "exit_code": 0}
    change(db, run, state="finished", summary=json.dumps(summary), **changes)
    end_attempt(db, run, "finished", 0, now)
    if number < CURVES:
        rows = [json.dumps({"_step": n, "loss": 1 / (n + 1)}) for n in range(STEPS)]
        write_lines(db, run.id, "history", 0, rows)
