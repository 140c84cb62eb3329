"""Sweeps to look at, made through the SDK's own protocol; and what tests do to their pages."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from tests.backend.client import Client

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDE, PHONE = 1400, 390
HISTOGRAM = {"_type": "histogram", "values": [1, 5, 2], "bins": [0.0, 1.0, 2.0, 3.0]}
NASTY = "<script>document.title='hacked'</script><img src=x onerror=alert(1)>"


def make_sweep(client: Client, count: int, **more: Any) -> str:
    """Make a sweep of `count` ended runs whose loss depends on lr and a seed, and one that runs."""
    config = {
        "name": "learning rate",
        "program": "train.py",
        "method": "random",
        "run_cap": count + 3,
        "retries": 0,
        "metric": {"name": "loss", "goal": "minimize"},
        "parameters": {
            "lr": {"distribution": "log_uniform_values", "min": 1e-4, "max": 0.1},
            "batch_size": {"values": [32, 64, 128]},
            "optimizer": {"values": ["sgd", "adam"]},
            "epochs": {"value": 10},
        },
        **more,
    }
    sweep = client.create_sweep(config)
    agent = client.create_agent(sweep, "node-1")
    for number in range(count):
        run_once(client, agent, number)
    start_run(client, agent)
    return sweep


def start_run(client: Client, agent: str) -> dict[str, Any]:
    """Take a run and begin it."""
    command = client.heartbeat(agent)[0]
    client.init_run(command["run_id"], config=json.dumps(command["args"]))
    return command


def run_once(client: Client, agent: str, number: int) -> str:
    """Take a run, log ten epochs of it, and end it; every seventh one fails."""
    command = start_run(client, agent)
    lr = command["args"].get("lr", {}).get("value", 0.01)
    seed = command["args"].get("seed", {}).get("value", 0)
    level = (math.log10(lr) + 2) ** 2 + seed / 1000
    rows = [
        {"_step": 10 * n, "_runtime": 2.0 * n, "epoch": n, "loss": level + 3 / (n + 1)}
        for n in range(10)
    ]
    name: str = command["run_id"]
    client.log(name, rows)
    client.finish(name, exit_code=int(number % 7 == 6))
    return name


def shown_runs(page: Page) -> list[str]:
    """Return the ids of all rows of the runs' table, by scrolling through it."""
    found: dict[str, None] = {}
    table = page.locator(".table.long")
    table.evaluate("(element) => { element.scrollTop = 0; }")
    while True:
        page.wait_for_timeout(50)
        rows = table.locator("tr[data-id]")
        found.update(
            dict.fromkeys(rows.evaluate_all("(rows) => rows.map((row) => row.dataset.id)"))
        )
        moved = table.evaluate(
            "(one) => { const before = one.scrollTop; one.scrollTop += one.clientHeight;"
            " return one.scrollTop !== before; }"
        )
        if not moved:
            return list(found)


def wait_for_rows(page: Page, count: int) -> None:
    """Wait until the table says that it has so many rows."""
    page.wait_for_selector(f'table.runs[aria-rowcount="{count + 1}"]')


def brush(page: Page, axis: int, axes: int, low: float, high: float) -> None:
    """Drag along an axis of the parallel coordinates, from one share of its height to another.

    From a place to the same one it is a click.
    """
    plot = page.locator('figure:has(strong:text-is("Parallel coordinates")) .plot')
    plot.scroll_into_view_if_needed()
    plot.locator("canvas").wait_for()
    page.wait_for_timeout(300)  # the canvas has no state that could be waited for
    box = plot.bounding_box()
    assert box
    # The margins of the chart, as `parallel.js` has them.
    x = box["x"] + 40 + axis * (box["width"] - 124) / (axes - 1)
    top, height = box["y"] + 46, box["height"] - 70
    page.mouse.move(x, top + (1 - low) * height)
    page.mouse.down()
    if high != low:
        page.mouse.move(x, top + (1 - (low + high) / 2) * height, steps=5)
        page.mouse.move(x, top + (1 - high) * height, steps=5)
    page.mouse.up()
