"""The report as one file: opened from a disk with the network off, whatever its runs are called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from deployer.report.collection import collect
from deployer.report.content import build_html
from tests.backend.client import Client
from tests.browser.conftest import Watch
from tests.browser.sweeps import NASTY, PHONE, WIDE, make_sweep, start_run, wait_for_rows
from tests.project_files import list_sweeps
from tests.report.served import NOW, open_server, path_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

SECTIONS = ("Runs", "Agents", "Failures", "Coverage", "sweep.yaml")
SHIPPED = list_sweeps("recipes/*/sweep*.yaml") + list_sweeps()
# The others wait for `make test-full`.
ALWAYS = ("digits.yaml", "002-wandb-gke/sweep.yaml", "003-eidf/sweep.article.yaml")
RUNS = 4
CHARTS = ("Best so far", "Parallel coordinates", "Curves")


def in_tier(file: Path) -> Any:
    always = str(file).endswith(ALWAYS)
    return pytest.param(file, id=str(file), marks=() if always else pytest.mark.full)


@pytest.fixture
def report(client: Client, tmp_path: Path) -> str:
    """Write the report of a sweep whose names are markup; return its address."""
    nasty = {NASTY: {"values": [NASTY]}, "lr": {"values": [0.1, 0.01]}}
    sweep = make_sweep(client, 15, name=NASTY, parameters=nasty)
    client.init_run(f"{sweep}-1", displayName=NASTY)
    found = collect(open_server(client), path_of(client, sweep), NOW)
    (tmp_path / "report.html").write_text(build_html(found), encoding="utf-8")
    return f"file://{tmp_path}/report.html"


@pytest.fixture
def offline(chromium: Browser, watch: Watch) -> Iterator[Page]:
    """Give a window that is connected to nothing."""
    context = chromium.new_context(offline=True, viewport={"width": WIDE, "height": 900})
    page = context.new_page()
    watch.follow(page)
    yield page
    context.close()


def test_one_file_shows_it_all_without_a_network_and_runs_nothing_of_a_users(
    report: str, offline: Page, watch: Watch
) -> None:
    offline.goto(report)
    wait_for_rows(offline, 16)
    for name in SECTIONS:
        offline.wait_for_selector(f"h2:text-is('{name}')")
    for name in CHARTS:
        chart = offline.locator(f"figure:has(strong:text-is('{name}'))")
        chart.scroll_into_view_if_needed()
        chart.locator("canvas").wait_for()
    offline.wait_for_selector(".importance tbody tr")
    assert offline.text_content("#trouble") == ""
    assert offline.title() != "hacked"
    assert offline.locator("main img, main script").count() == 0
    offline.fill("[aria-label='Filter runs']", "state=failed")
    wait_for_rows(offline, 2)
    offline.set_viewport_size({"width": PHONE, "height": 900})
    assert offline.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert watch.troubles == []


@pytest.mark.parametrize("file", [in_tier(file) for file in SHIPPED])
def test_a_report_of_what_we_ship_opens_without_a_network(
    file: Path, client: Client, tmp_path: Path, offline: Page, watch: Watch
) -> None:
    config = yaml.safe_load(file.read_text())
    metric = config["metric"]["name"]
    sweep = client.create_sweep({**config, "run_cap": RUNS})
    agent = client.create_agent(sweep, "node-1")
    expected = client.sweep(sweep)["runCountExpected"]
    count = min(RUNS, expected or RUNS)
    for number in range(count):
        name = start_run(client, agent)["run_id"]
        rows = [{"_step": n, "_runtime": n, metric: (n + number) / 10} for n in range(5)]
        client.log(name, rows)
        client.finish(name)
    found = collect(open_server(client), path_of(client, sweep), NOW)
    (tmp_path / "report.html").write_text(build_html(found), encoding="utf-8")
    offline.goto(f"file://{tmp_path}/report.html")
    wait_for_rows(offline, count)
    for name in CHARTS:
        chart = offline.locator(f"figure:has(strong:text-is('{name}'))")
        chart.scroll_into_view_if_needed()
        chart.locator("canvas").wait_for()
    offline.wait_for_selector(".importance p.muted")
    assert offline.text_content("#trouble") == ""
    assert watch.troubles == []
