"""The page of a sweep: sorted, filtered, brushed, chosen, sent on; and it stays fresh."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from urllib.parse import unquote

import pytest
from PIL import Image

from tests.backend.client import Client, grid
from tests.browser.conftest import OpenPage
from tests.browser.sweeps import (
    NASTY,
    brush,
    make_sweep,
    run_once,
    shown_runs,
    start_run,
    wait_for_rows,
)
from tests.conftest import ServedBackend
from tests.stock import start_wandb_agent, wandb_sweep, write_project

pytestmark = pytest.mark.browser


def test_rows_are_sorted_filtered_and_found_again_at_their_address(
    client: Client, open_page: OpenPage
) -> None:
    sweep = make_sweep(client, 20)
    page = open_page(f"/sweeps/{sweep}")
    wait_for_rows(page, 21)
    page.click('th button:text-is("lr")')
    page.wait_for_selector('th[aria-sort="ascending"]:has(button:text-is("lr"))')
    rows = {row["id"]: row["lr"] for row in _runs_of(page.evaluate(_FETCH))}
    assert shown_runs(page) == sorted(rows, key=lambda run: rows[run])
    page.fill('input[type="search"]', "lr<0.01")
    few = {run for run, lr in rows.items() if lr < 0.01}
    wait_for_rows(page, len(few))
    assert set(shown_runs(page)) == few
    assert "sort=p.lr" in page.url
    page.reload()
    wait_for_rows(page, len(few))
    assert page.input_value('input[type="search"]') == "lr<0.01"
    page.click(".chips button:has-text('failed')")
    page.wait_for_url(re.compile("states=failed"))
    page.go_back()
    wait_for_rows(page, len(few))
    page.click("text=Show all")
    wait_for_rows(page, 21)


def test_brushed_rows_equal_a_query_of_the_database(
    backend: ServedBackend, client: Client, open_page: OpenPage
) -> None:
    sweep = make_sweep(client, 40)
    page = open_page(f"/sweeps/{sweep}")
    wait_for_rows(page, 41)
    brush(page, 1, 4, 0.2, 0.6)
    page.wait_for_url(re.compile("brush="))
    found = re.search(r"brush=lr%3A([\d.e-]+)%7E([\d.e-]+)", page.url)
    assert found, unquote(page.url)
    low, high = float(found[1]), float(found[2])
    where = "json_extract(args, '$.lr') BETWEEN ? AND ?"
    matching = query_runs(backend, sweep, where, low, high)
    assert 0 < len(matching) < 41
    wait_for_rows(page, len(matching))
    assert set(shown_runs(page)) == matching
    for place in (0.4, 0.9):  # a click on an axis clears it, in what is brushed and beside it
        page.reload()
        wait_for_rows(page, len(matching))
        brush(page, 1, 4, place, place)
        wait_for_rows(page, 41)
        page.go_back()
        wait_for_rows(page, len(matching))
    page.click('button:text-is("Clear")')
    wait_for_rows(page, 41)
    page.goto(f"{page.url}?brush=lr;%25zz:1~2;optimizer:x")
    wait_for_rows(page, 41)
    brush(page, 2, 4, 0.1, 0.4)
    adam = query_runs(backend, sweep, "json_extract(args, '$.optimizer') = ?", "adam")
    wait_for_rows(page, len(adam))
    assert set(shown_runs(page)) == adam


def test_what_users_chose_is_text_everywhere(client: Client, open_page: OpenPage) -> None:
    config = {**grid(**{NASTY: [NASTY, "b"]}), "name": NASTY, "metric": {"name": NASTY}}
    sweep = client.create_sweep(config)
    agent = client.create_agent(sweep, NASTY)
    for value in (1.0, 2.0):
        run = client.heartbeat(agent)[0]
        client.init_run(run["run_id"], config=json.dumps(run["args"]), displayName=NASTY)
        client.log(run["run_id"], [{"_step": n, NASTY: value} for n in range(3)])
        client.stream(run["run_id"], files={"output.log": {"offset": 0, "content": [NASTY]}})
        client.finish(run["run_id"])
    page = open_page(f"/sweeps/{sweep}")
    wait_for_rows(page, 2)
    assert page.text_content("h1") == NASTY
    for plot in page.locator(".plot canvas").all():
        plot.hover()
    page.hover("tr[data-id]")
    for place in (f"/runs/{sweep}-0", f"/compare?runs={sweep}-0,{sweep}-1", ""):
        page.goto(f"{client.url}/{client.entity}/{client.project}{place}")
        page.wait_for_selector("main h1")
        page.wait_for_timeout(200)
    assert "hacked" not in page.title()
    assert page.locator("main script, main img[src=x]").count() == 0


def test_a_page_follows_its_sweep_without_loading_again(
    client: Client, open_page: OpenPage
) -> None:
    sweep = make_sweep(client, 5)
    page = open_page(f"/sweeps/{sweep}")
    wait_for_rows(page, 6)
    page.evaluate("window.same = true")
    agent = client.create_agent(sweep, "node-2")
    run_once(client, agent, 0)
    wait_for_rows(page, 7)
    start_run(client, agent)
    wait_for_rows(page, 8)
    assert page.evaluate("window.same") is True


def test_chosen_runs_are_compared(client: Client, open_page: OpenPage) -> None:
    sweep = make_sweep(client, 5)
    page = open_page(f"/sweeps/{sweep}")
    wait_for_rows(page, 6)
    page.focus(".runs tbody input >> nth=0")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.wait_for_selector("text=2 chosen")
    page.wait_for_selector("text=2 of 6 runs")
    page.click('a.button:text-is("Compare")')
    page.wait_for_selector("h1:text-is('2 runs compared')")
    assert page.locator("th[scope=row]:text-is('lr')").count() == 1
    assert page.locator("th[scope=row]:text-is('epochs')").count() == 0
    page.check("text=also what is the same")
    page.wait_for_selector("th[scope=row]:text-is('epochs')")
    page.wait_for_selector("figure:has(strong:text-is('loss')) canvas")


def test_a_table_and_a_chart_are_saved(client: Client, open_page: OpenPage, tmp_path: Path) -> None:
    names = ("lr", "rank", "title", "epoch")
    parameters = {name: {"values": [0.01, 0.02]} for name in names}
    sweep = make_sweep(client, 3, parameters=parameters)
    page = open_page(f"/sweeps/{sweep}")
    wait_for_rows(page, 4)
    with page.expect_download() as csv:
        page.click("button:text-is('CSV')")
    csv.value.save_as(tmp_path / "runs.csv")
    heads, *rows = (tmp_path / "runs.csv").read_text().splitlines()
    assert heads.startswith("rank,run_id,title,state,loss,")
    assert ",config.epoch,lr,config.rank,config.title,summary.epoch," in heads
    assert ",duration_seconds," in heads
    assert len(rows) == 4
    for label, below in (("Best so far", 0), ("Curves", 1), ("Parallel coordinates", 0)):
        chart = page.locator(f"figure:has(strong:text-is('{label}'))")
        chart.scroll_into_view_if_needed()
        chart.locator("canvas").wait_for()
        with page.expect_download() as picture:
            chart.locator("button:text-is('Picture')").click()
        assert picture.value.suggested_filename == f"{sweep}-{label.replace(' ', '-')}.png"
        file = tmp_path / picture.value.suggested_filename
        picture.value.save_as(file)
        box = chart.locator(".plot").bounding_box()
        assert box
        # Two lines of words above; below, the names of a few runs.
        size = (2 * box["width"], 2 * (box["height"] + 56 + below * 36))
        assert Image.open(file).size == pytest.approx(size, abs=2)


@pytest.mark.full
def test_a_real_sweep_is_paused_and_goes_on(
    backend: ServedBackend, client: Client, open_page: OpenPage, tmp_path: Path
) -> None:
    config = {**grid(lr=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), "metric": {"name": "loss"}}
    path = write_project(tmp_path / "project", config)
    sweep_path = wandb_sweep(backend, path, client.project)
    sweep = sweep_path.rpartition("/")[2]
    page = open_page(f"/sweeps/{sweep}")
    running = ".chips button:has-text('running')"
    with start_wandb_agent(backend, path.parent, sweep_path) as agent:
        try:
            page.wait_for_selector("tr[data-id] .state.finished", timeout=60_000)
            page.click('button:text-is("Pause")')
            page.wait_for_selector(".title .state.paused")
            assert client.sweep(sweep)["state"] == "PAUSED"
            page.wait_for_selector(running, state="detached", timeout=60_000)
            assert client.sweep(sweep)["runCount"] < 6
            page.click('button:text-is("Resume")')
            page.wait_for_selector("text=6/6 configurations finished", timeout=90_000)
            assert page.locator(".controls button").count() == 0
        finally:
            agent.terminate()


def test_what_cannot_be_undone_is_asked_for_again(client: Client, open_page: OpenPage) -> None:
    sweep = make_sweep(client, 2)
    page = open_page(f"/sweeps/{sweep}")
    page.click('.title button:text-is("Cancel")')
    page.click('dialog button:text-is("Leave it")')
    assert client.sweep(sweep)["state"] == "RUNNING"
    page.click('.title button:text-is("Cancel")')
    page.click('dialog button:text-is("Cancel the sweep")')
    page.wait_for_selector(".title .state.canceled")
    assert client.sweep(sweep)["state"] == "CANCELED"


def query_runs(backend: ServedBackend, sweep: str, where: str, *values: object) -> set[str]:
    """Return the runs of a sweep that the database itself finds."""
    of_sweep = "FROM runs JOIN sweeps ON sweeps.id = runs.sweep_id WHERE sweeps.name = ?"
    with sqlite3.connect(backend.data / "backend.sqlite") as db:
        found = db.execute(f"SELECT runs.name {of_sweep} AND {where}", (sweep, *values)).fetchall()
    return {name for (name,) in found}


_FETCH = """async () => (await fetch('/api/pages' + location.pathname)).json()"""


def _runs_of(document: dict[str, list[object]]) -> list[dict[str, float]]:
    at = document["columns"].index("lr")
    fields = document["fields"]
    rows = [dict(zip(fields, row, strict=True)) for row in document["runs"]]  # type: ignore[call-overload]
    return [{"id": row["id"], "lr": row["parameters"][at]} for row in rows]
