"""What filters the runs: words and conditions that are understood or not, and spans of an axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from tests.backend.client import Client, grid
from tests.browser.conftest import OpenPage
from tests.browser.sweeps import brush, make_sweep, shown_runs, start_run, wait_for_rows

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

FILTER = 'input[type="search"]'
UNCLEAR = ".filter .error"


def finish_grid(client: Client, nan: int | None = None, **parameters: list[object]) -> str:
    """Make a sweep of finished runs whose loss is their number; that of run `nan` is NaN."""
    sweep = client.create_sweep({**grid(**parameters), "metric": {"name": "loss"}})
    agent = client.create_agent(sweep)
    for number in range(math.prod(map(len, parameters.values()))):
        name = start_run(client, agent)["run_id"]
        client.log(name, [{"_step": 0, "loss": "NaN" if number == nan else number}])
        client.finish(name)
    return sweep


def count_rows(page: Page) -> int:
    return int(page.get_attribute("table.runs", "aria-rowcount") or 0) - 1


def test_what_the_filter_does_not_understand_is_said(client: Client, open_page: OpenPage) -> None:
    page = open_page(f"/sweeps/{make_sweep(client, 8)}")
    wait_for_rows(page, 9)
    assert page.text_content(UNCLEAR) == ""
    for text, said in (
        ("lr >", "lr> lacks what it is compared with: write lr<"),
        ("<3", "<3 lacks a column: write batch_size<"),
        ("lr=abc", "lr holds numbers, and abc is none: write lr<"),
        ("epochz=3", "epochz is no column: did you mean epoch"),
        ("zzz=3", "zzz is no column: write batch_size<"),
        ('"lr', "a quote is not closed"),
        ("lr<1 or", "or stands between two words or conditions"),
        ("lr<1 not", "not stands before a word or a condition"),
        ("optimizer<adam", "optimizer holds text, which has no order: write optimizer="),
    ):
        page.fill(FILTER, text)
        page.locator(UNCLEAR).filter(has_text=f"Not understood: {said}").wait_for()
        assert count_rows(page) == 9, text
    for text, count in (("lr < 1", 9), ("epochs=10", 9), ("epochs=11", 0), ("state=failed", 1)):
        page.fill(FILTER, text)
        wait_for_rows(page, count)
        assert page.text_content(UNCLEAR) == ""


def test_values_that_look_alike_are_told_apart(client: Client, open_page: OpenPage) -> None:
    values: list[object] = [1, "1", True, "True", None, "null", "a b"]
    page = open_page(f"/sweeps/{finish_grid(client, x=values)}")
    wait_for_rows(page, 7)
    cells = page.locator(".runs tbody tr[data-id] td:nth-child(6)").all_text_contents()
    assert cells == ["1", '"1"', "true", '"True"', "null", '"null"', "a b"]
    for text, count in (('x="1"', 1), ("x=1", 2), ('x="a b"', 1), ("x=null", 2), ("x=true", 1)):
        page.fill(FILTER, text)
        wait_for_rows(page, count)


def test_a_filter_has_alternatives_negation_and_lists(client: Client, open_page: OpenPage) -> None:
    values: list[object] = ["adam", "sgd", "sgd, nesterov"]
    page = open_page(f"/sweeps/{finish_grid(client, nan=1, Opt=values, lr=[0.1, 0.2])}")
    wait_for_rows(page, 6)
    for text, count in (
        ("lr<0.15 or adam", 4),
        ("lr<0.15 and adam", 1),
        ("adam lr<0.15 or sgd lr>0.15", 3),
        ("not adam", 4),
        ("-adam lr<0.15", 2),
        ("Opt!=adam", 4),
        ("opt=adam,sgd", 4),
        ('Opt="sgd, nesterov"', 2),
        ('"sgd, n"', 2),
        ("lr==0.1", 3),
        ("loss=nan", 1),
        ("loss!=NaN", 5),
        ("runtime<1h", 6),
        ("state=killed,failed", 0),
        ("", 6),
    ):
        page.fill(FILTER, text)
        wait_for_rows(page, count)
        assert page.text_content(UNCLEAR) == "", text


def test_a_span_of_an_axis_of_texts_takes_what_is_in_it_or_the_nearest(
    client: Client, open_page: OpenPage
) -> None:
    names = ["a", "b", "c", "d"]
    page = open_page(f"/sweeps/{finish_grid(client, x=names, y=[1, 2])}")
    wait_for_rows(page, 8)
    # The four lie at a fifth, two, three and four fifths of the axis.
    for low, high, taken in ((0.1, 0.3, "a"), (0.3, 0.7, "bc"), (0.22, 0.27, "a"), (0.9, 1.0, "d")):
        brush(page, 0, 3, low, high)
        wait_for_rows(page, 2 * len(taken))
        shown = set(shown_runs(page))
        rows = page.locator(".runs tbody tr[data-id] td:nth-child(6)").all_text_contents()
        assert (len(shown), set(rows)) == (2 * len(taken), set(taken)), (low, high)
        page.click('button:text-is("Clear")')
        wait_for_rows(page, 8)


def test_the_keyboard_stays_in_the_columns(client: Client, open_page: OpenPage) -> None:
    page = open_page(f"/sweeps/{make_sweep(client, 2)}")
    page.click("summary:text-is('Columns')")
    for _ in range(2):
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        assert page.evaluate("document.activeElement.matches('.menu input')")
    page.wait_for_url("**columns=*")
    page.keyboard.press("Escape")
    page.wait_for_selector(".menu:not([open])")


def test_an_address_that_asks_for_what_is_not_there(client: Client, open_page: OpenPage) -> None:
    asked = "sort=nonsense&x=bogus&y=zzz&metric=nosuch&curves=7"
    page = open_page(f"/sweeps/{make_sweep(client, 2)}?{asked}")
    page.wait_for_selector(".runs .sample[style]")
    for label, value in (("Horizontal axis", "steps"), ("Vertical scale", ""), ("Metric", "loss")):
        assert page.input_value(f'select[aria-label="{label}"]') == value
    assert page.input_value('select[aria-label="How many curves"]') == "10"


def test_escape_and_a_click_beside_close_the_columns(client: Client, open_page: OpenPage) -> None:
    page = open_page(f"/sweeps/{make_sweep(client, 2)}")
    for close in (lambda: page.keyboard.press("Escape"), lambda: page.click("h1")):
        page.click("summary:text-is('Columns')")
        page.wait_for_selector(".menu[open] label")
        close()
        page.wait_for_selector(".menu:not([open])")


def test_ten_curves_look_different(client: Client, open_page: OpenPage) -> None:
    page = open_page(f"/sweeps/{make_sweep(client, 12)}")
    page.wait_for_selector(".runs .sample[style]")
    looks = page.locator(".runs .sample[style]").evaluate_all(
        "(all) => all.map((one) => one.style.borderTop)"
    )
    assert len(looks) == len(set(looks)) == 11
