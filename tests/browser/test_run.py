"""The page of a run, and pages of what is not there."""

from __future__ import annotations

import base64
import json
import math

import pytest

from tests.backend.client import Client
from tests.browser.conftest import OpenPage, Watch
from tests.browser.sweeps import HISTOGRAM, make_sweep, start_run, wait_for_rows

pytestmark = pytest.mark.browser

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PAGE = "<h1>Attention</h1><script>parent.document.title = 'hacked'</script>"


def test_histograms_and_pages_of_a_run_are_shown(
    client: Client, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = "Blocked script execution"
    client.init_run("r")
    html = {"_type": "html-file", "path": "media/html/p.html"}
    rows = [{"_step": 10 * n, "weights": HISTOGRAM} for n in range(3)]
    client.log("r", [*rows, {"_step": 30, "notes": html}])
    client.upload("r", html["path"], PAGE.encode())
    page = open_page("/runs/r")
    card = page.locator("figure.histogram")
    card.scroll_into_view_if_needed()
    card.locator("canvas").wait_for()
    assert card.locator("figcaption .muted").text_content() == "step 20"
    card.locator("input").fill("0")
    assert card.locator("figcaption .muted").text_content() == "step 0"
    assert card.locator(".plot").get_attribute("aria-label") == "weights: 8 values from 0 to 3"
    page.frame_locator("iframe").locator("h1:text-is('Attention')").wait_for()
    assert "hacked" not in page.title()


def test_the_step_of_an_image_is_chosen(client: Client, open_page: OpenPage) -> None:
    client.init_run("r")

    def log(step: int) -> None:
        path = f"media/images/{step}.png"
        image = {"_type": "image-file", "path": path, "caption": f"epoch {step}"}
        client.upload("r", path, PIXEL)
        client.log("r", [{"_step": step, "sample": image, "loss": step}], offset=step)

    for step in range(3):
        log(step)
    page = open_page("/runs/r")
    card = page.locator("figure.image")
    assert card.locator("figcaption .muted").text_content() == "step 2"
    card.locator("input").fill("1")
    assert card.locator("figcaption .muted").text_content() == "step 1"
    assert card.locator("img").get_attribute("alt") == "epoch 1"
    log(3)
    page.wait_for_selector("figure:has(strong:text-is('loss')) .muted:text-is('3')")
    assert card.locator("figcaption .muted").text_content() == "step 1"
    card.locator("input").fill("3")
    log(4)
    card.locator(".muted:text-is('step 4')").wait_for()
    assert card.locator("img").get_attribute("alt") == "epoch 4"


def test_a_table_may_hold_what_no_json_has(client: Client, open_page: OpenPage) -> None:
    client.init_run("r")
    table = {"_type": "table-file", "path": "media/table/t.table.json"}
    client.log("r", [{"_step": 1, "t": table}])
    cells = [[math.nan, 'say "NaN"'], [-math.inf, "Infinity\\"], [math.inf, None]]
    rows = json.dumps({"columns": ["x", "NaN"], "data": cells})
    client.upload("r", table["path"], rows.encode())
    page = open_page("/runs/r")
    page.locator("figure.table").scroll_into_view_if_needed()
    page.wait_for_selector("figure.table td")
    assert page.locator("figure.table th").all_text_contents() == ["x", "NaN"]
    shown = page.locator("figure.table td").all_text_contents()
    assert shown == ["NaN", 'say "NaN"', "-Infinity", "Infinity\\", "Infinity", "\N{EN DASH}"]


def test_a_metric_that_ends_in_nan_says_so(client: Client, open_page: OpenPage) -> None:
    client.init_run("r", config=json.dumps({"x": {"value": "1"}, "y": {"value": 1}}))
    client.log(
        "r", [{"_step": 0, "a": 1.0, "b": math.nan}, {"_step": 1, "a": math.nan, "b": -math.inf}]
    )
    page = open_page("/runs/r")
    gap = "NaN or infinite first at step"
    for name, said, chart in (
        ("a", ("NaN", f"{gap} 1"), "a: r"),
        ("b", ("-Infinity", f"{gap} 0"), "b: no finite values"),
    ):
        card = page.locator(f"figure:has(strong:text-is('{name}'))")
        assert tuple(card.locator(".muted").all_text_contents()) == said
        assert card.locator(".plot").get_attribute("aria-label") == chart
    values = page.locator("dd").all_text_contents()
    assert {'"1"', "1", "NaN", "-Infinity"} <= set(values)
    with page.expect_download() as saving:
        page.click("a:text-is('CSV')")
    assert saving.value.suggested_filename == "r.csv"
    saved = saving.value.path().read_text().splitlines()
    assert saved == ["_step,a,b", "0,1.0,nan", "1,nan,-inf"]


def test_a_log_scale_says_what_it_leaves_out(client: Client, open_page: OpenPage) -> None:
    client.init_run("log")
    client.log("log", [{"_step": n, "a": n - 1, "b": -n - 1, "c": n + 1} for n in range(4)])
    page = open_page("/runs/log?y=log")
    for name, said in (
        ("a", ["2", "values of 0 or below not shown"]),
        ("b", ["-4", "no value above 0 for a log scale"]),
        ("c", ["4", ""]),
    ):
        card = page.locator(f"figure:has(strong:text-is('{name}'))")
        assert card.locator(".muted").all_text_contents() == said


def test_ticks_that_are_near_each_other_read_unlike(client: Client, open_page: OpenPage) -> None:
    client.init_run("r")
    page = open_page("/runs/r")
    script = page.locator("script[type=module]").get_attribute("src")
    assert script
    parts = script.replace("pages.js", "parts.js")
    for values, seconds, ticks in (
        ([1000.0, 1000.05], False, ["1000.01", "1000.02"]),
        ([0.99999, 0.999995], False, ["0.999991", "0.999992"]),
        ([0.0, 0.06], True, ["0.01 s", "0.02 s"]),
        ([0.0, 120.0], True, ["30 s", "1 m 00 s"]),
        ([3.0, 3.0], False, ["3", "3.5"]),
    ):
        at = [float(tick.removesuffix(" s")) if "m" not in tick else 60.0 for tick in ticks]
        write = "([p, v, s, at]) => import(p).then((m) => at.map(m.writeTicks(v, s)))"
        assert page.evaluate(write, [parts, values, seconds, at]) == ticks


def test_a_sweep_of_nan_shows_nan_and_no_blank_chart(client: Client, open_page: OpenPage) -> None:
    parameters = {"lr": {"values": [1, 2]}}
    config = {"program": "t.py", "method": "grid", "parameters": parameters}
    sweep = client.create_sweep({**config, "metric": {"name": "loss"}})
    agent = client.create_agent(sweep)
    for _ in range(2):
        name = start_run(client, agent)["run_id"]
        client.log(name, [{"_step": 0, "loss": math.nan, "other": math.nan}])
        client.finish(name)
    page = open_page(f"/sweeps/{sweep}")
    wait_for_rows(page, 2)
    assert page.locator(".runs td:text-is('NaN')").count() == 4
    for name, said in (
        ("Best so far", "no run has finished with a finite loss"),
        ("Curves", "no finite values"),
        ("Parallel coordinates", "no run has values on two axes"),
    ):
        page.wait_for_selector(f"figure .plot[aria-label='{name}: {said}']")


def test_a_run_that_is_not_there_is_named_beside_those_that_are(
    client: Client, open_page: OpenPage
) -> None:
    sweep = make_sweep(client, 2)
    page = open_page(f"/compare?runs={sweep}-0,gone,{sweep}-1")
    page.wait_for_selector("text=There is no run gone in this project.")
    page.wait_for_selector("h1:text-is('2 runs compared')")
    page.wait_for_selector("figure:has(strong:text-is('loss')) canvas")
    page.goto(f"{client.url}/{client.entity}/{client.project}/compare?runs=gone")
    page.wait_for_selector("h1:text-is('0 runs compared')")
    assert page.text_content("#trouble") == ""


@pytest.mark.parametrize("place", ["/runs/none", "/sweeps/none"])
def test_what_is_not_there_is_not_waited_for(
    client: Client, open_page: OpenPage, watch: Watch, place: str
) -> None:
    watch.expected = "404"
    make_sweep(client, 1)
    page = open_page()
    page.goto(f"{client.url}/{client.entity}/{client.project}{place}")
    page.wait_for_selector("h1:text-is('Not found')")
    page.wait_for_selector("text=/none not found/")


@pytest.mark.full
def test_a_run_that_is_deleted_while_it_is_shown_is_not_asked_for_again(
    client: Client, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = "404"
    run = client.init_run("r")
    page = open_page("/runs/r")
    client.ask("mutation D($id: ID!) { deleteRun(input: {id: $id}) { success } }", id=run["id"])
    page.locator("#trouble").filter(has_text="not found").wait_for()
    assert "Trying again" not in (page.text_content("#trouble") or "")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(6000)  # longer than a stream that has ended waits before it is opened
    assert asked == []
