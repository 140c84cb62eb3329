"""The rows of prices, the package's and the user's own: each has a source and a day."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deployer.errors import ConfigError
from deployer.gke.pricing import OWN_FILE, estimate, load_prices, parse_rows
from deployer.gke.specification import load_spec

REST = "date: 2026-01-01, source: a contract"
ZONE = "us-central1-a"


def test_each_row_of_the_package_has_a_source_and_a_day(tmp_path: Path) -> None:
    rows = load_prices(tmp_path).rows.values()
    assert len(rows) > 100
    for row in rows:
        assert re.fullmatch(r"https://\S+", row.source), row
        assert re.fullmatch(r"(read )?20[0-9]{2}-[0-9]{2}-[0-9]{2}", row.day), row
        assert row.usd_per_hour > 0


def test_spot_is_cheaper_than_its_list_price(tmp_path: Path) -> None:
    rows = load_prices(tmp_path).rows
    pairs = [(row, rows[what, where, False]) for (what, where, spot), row in rows.items() if spot]
    assert pairs
    assert all(spot.usd_per_hour < full.usd_per_hour for spot, full in pairs)


@pytest.mark.parametrize("name", ["t4", "l4-spot", "a100-mig", "regional", "private"])
def test_packaged_specifications_have_a_price_wherever_they_may_be_made(
    name: str, tmp_path: Path
) -> None:
    spec, prices = load_spec(name, tmp_path), load_prices(tmp_path)
    assert all(not estimate(spec, one, prices).missing for one in spec.locations)


def test_own_rows_take_the_place_of_the_packages(tmp_path: Path) -> None:
    before = estimate(load_spec("t4", tmp_path), ZONE, load_prices(tmp_path))
    (tmp_path / OWN_FILE).write_text(
        f"- {{what: nvidia-tesla-t4, region: us-central1, usd_per_hour: 0.25, {REST}}}\n"
        f"- {{what: e2-standard-2, region: africa-south1, usd_per_hour: 1, {REST}}}\n"
    )
    prices = load_prices(tmp_path)
    after = estimate(load_spec("t4", tmp_path), ZONE, prices)
    assert before.usd_per_hour is not None
    assert after.usd_per_hour == pytest.approx(before.usd_per_hour - 4 * (0.35 - 0.25))
    assert prices.find("e2-standard-2", "africa-south1", False) is not None
    (tmp_path / OWN_FILE).write_text("# nothing yet\n")
    assert load_prices(tmp_path).rows == load_prices(tmp_path / "elsewhere").rows


def row(text: str) -> str:
    """Return a row with everything that the text does not say."""
    parts = {"what": "g2-standard-8", "region": "us-east1", "usd_per_hour": "1"}
    rest = [f"{key}: {value}" for key, value in parts.items() if f"{key}:" not in text]
    return f"- {{{', '.join((text, *rest))}}}"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (f"price: 2, {REST}", "[0].price: unknown key", None),
        (f"regions: a, {REST}", "[0].regions: unknown key", "did you mean `region`?"),
        (
            f"usd_per_hour: cheap, {REST}",
            "[0].usd_per_hour: 'cheap' is not a number",
            "write it without quotes, such as 0.5",
        ),
        (
            f"usd_per_hour: -1, {REST}",
            "[0].usd_per_hour: -1 is below 0",
            "write 0 or more",
        ),
        (
            f"region: us-east1-b, {REST}",
            "[0].region: 'us-east1-b' is not valid",
            "a region such as us-central1 (not a zone), or any",
        ),
        (
            f"what: cluster managment fee, {REST}",
            "[0]: what: 'cluster managment fee' is not a priced item",
            "did you mean `cluster management fee`?",
        ),
        (
            f"what: pd-balancd, {REST}",
            "[0]: what: 'pd-balancd' is not a priced item",
            "did you mean `pd-balanced`?",
        ),
        (
            f"what: T4, {REST}",
            "[0]: what: 'T4' is not a priced item",
            "a machine type, a GPU, `cluster management fee`, `external address`, "
            "`pd-balanced`, `hyperdisk-balanced`",
        ),
        ("date: 2026-01-01", "[0].source: is missing", "add `source:`"),
        (
            "source: x",
            "[0]: has no date",
            "give `date`, the day of the source, or `read`, the day it was read",
        ),
        (
            f"read: 2026-01-01, {REST}",
            "[0]: has a date and read",
            "give `date`, the day of the source, or `read`, the day it was read",
        ),
        ("date: May, source: x", "[0].date: 'May' is not valid", "a day such as 2026-11-21"),
        (
            "date: '2026-02-30', source: x",
            "[0]: 2026-02-30 is not a date",
            "a day such as 2026-11-21",
        ),
    ],
)
def test_complaints_about_own_rows(
    text: str, message: str, hint: str | None, tmp_path: Path
) -> None:
    (tmp_path / OWN_FILE).write_text(f"# mine\n{row(text)}\n")
    with pytest.raises(ConfigError) as caught:
        load_prices(tmp_path)
    (found,) = caught.value.findings
    assert found.text == f"gke-prices.yaml:2: {message}"
    assert hint is None or found.fix == hint


def test_all_complaints_about_rows_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rows(f"{row('date: May, source: x')}\n{row(f'region: here, {REST}')}\n", "own.yaml")
    assert [error.text for error in caught.value.findings] == [
        "own.yaml:1: [0].date: 'May' is not valid",
        "own.yaml:2: [1].region: 'here' is not valid",
    ]
    with pytest.raises(ConfigError) as caught:
        parse_rows(f"{row(REST)}\n{row(REST)}\n", "own.yaml")
    (found,) = caught.value.findings
    assert found.text == "own.yaml:2: [1]: g2-standard-8 in us-east1 appears twice (also in line 1)"
    with pytest.raises(ConfigError, match=r"own.yaml: {'a': 1} is not a list"):
        parse_rows("a: 1", "own.yaml")
