"""Every page in both themes and two widths, signing in by a link, and the page as one file."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from deployer.page.single_file import FileContent, build_single_file
from tests.backend.client import Client
from tests.backend.pages_browser import log_in, read
from tests.browser.conftest import OpenPage, Watch, make_link
from tests.browser.sweeps import HISTOGRAM, PHONE, WIDE, make_sweep, wait_for_rows

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("light", WIDE),
        ("dark", PHONE),
        pytest.param("light", PHONE, marks=pytest.mark.full),
        pytest.param("dark", WIDE, marks=pytest.mark.full),
    ],
)
def test_nothing_sticks_out(client: Client, open_page: OpenPage, theme: str, width: int) -> None:
    sweep = make_sweep(client, 12)
    for name in ("gaps", "holes"):
        client.init_run(name)
        values = [1.0, math.nan, 2.0, -1.0, math.nan]
        metric = "validation/long-tailed.accuracy"
        client.log(name, [{"_step": n, metric: value} for n, value in enumerate(values)])
    client.init_run("pictures")
    names = ("validation/samples_of_the_first_batch", "w")
    histograms = [{"_step": 100 * n, **dict.fromkeys(names, HISTOGRAM)} for n in range(3)]
    client.log("pictures", histograms)
    page = open_page(width=width, theme=theme)
    places = (
        "",
        f"/sweeps/{sweep}",
        f"/runs/{sweep}-0",
        "/runs/gaps?y=log",
        "/runs/pictures",
        f"/compare?runs={sweep}-0,{sweep}-1",
        "/compare?runs=gaps,holes&y=log",
    )
    for place in places:
        page.goto(f"{client.url}/{client.entity}/{client.project}{place}")
        page.wait_for_selector("main h1")
        page.wait_for_timeout(300)
        beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert beyond <= 0, place
        squeezed = page.locator("figcaption").evaluate_all(
            "(all) => all.filter((one) => one.scrollWidth > one.clientWidth)"
            ".map((one) => one.textContent)"
        )
        titles = page.locator("figcaption strong").evaluate_all(
            "(all) => all.filter((one) => one.clientWidth < Math.min(one.scrollWidth, 40))"
            ".map((one) => one.textContent)"
        )
        assert squeezed + titles == [], place
        unnamed = page.locator("button:not([aria-label])").evaluate_all(
            "(all) => all.filter((one) => !one.textContent.trim()).length"
        )
        assert unnamed == 0


def test_a_link_signs_in_once_and_is_nowhere_after(
    client: Client, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = "401"
    sweep = make_sweep(client, 1)
    page = open_page(f"/sweeps/{sweep}")
    assert page.url == f"{client.url}/{client.entity}/{client.project}/sweeps/{sweep}"
    link = make_link(client, "/")
    page.context.clear_cookies()
    page.goto(link)
    page.wait_for_selector("h1:text-is('Projects')")
    page.context.clear_cookies()
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("text=This link was already used")
    assert "link=" not in page.url
    assert client.key not in page.content()


def test_who_is_signed_out_elsewhere_is_asked_again(
    client: Client, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = "401"
    sweep = make_sweep(client, 1)
    page = open_page(f"/sweeps/{sweep}")
    page.context.request.post(f"{client.url}/logout")
    page.wait_for_url("**/login?next=**")


def test_the_page_is_drawn_from_one_file(
    client: Client, open_page: OpenPage, tmp_path: Path
) -> None:
    sweep = make_sweep(client, 6)
    session = requests.Session()
    log_in(session, client.url, client.key)
    address = f"/{client.entity}/{client.project}/sweeps/{sweep}"
    document = read(session, client, f"/sweeps/{sweep}")
    curves = read(session, client, f"/curves?metric=loss&runs={','.join(document['chosen'])}")
    importance = read(session, client, f"/sweeps/{sweep}/importance")
    held = FileContent(
        address, {address: document}, {"loss": curves["curves"]}, {"loss": importance}
    )
    (tmp_path / "report.html").write_text(build_single_file(held))
    page = open_page(f"/sweeps/{sweep}")
    page.context.set_offline(True)
    page.goto(f"file://{tmp_path}/report.html")
    wait_for_rows(page, 7)
    page.wait_for_selector("figure:has(strong:text-is('Curves')) canvas")
    page.wait_for_selector("text=is the most important of")
    assert page.text_content("#trouble") == ""
    assert page.locator(".controls button").count() == 0
