"""A browser without its scripts, for the results pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import requests  # noqa: TID251 - a test is a client of its own

from deployer.page.strict_json import to_strict_json
from tests.backend.client import Client


def log_in(session: requests.Session, url: str, key: str, place: str = "/") -> requests.Response:
    address = f"{url}/login"
    return session.post(
        address, {"key": key}, params={"next": place}, allow_redirects=False, timeout=30
    )


def read(browser: requests.Session, client: Client, place: str = "") -> Any:
    """Return the data of a page of the client's project, parsed as a browser parses it."""
    address = f"{client.url}/api/pages/{client.entity}/{client.project}{place}"
    reply = browser.get(address, timeout=30)
    assert reply.status_code == 200, reply.text

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(reply.text, parse_constant=refuse)


def page(client: Client, place: str = "") -> str:
    return f"{client.url}/{client.entity}/{client.project}{place}"


def list_rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a sweep's document by the names of their fields."""
    document = json.loads(to_strict_json(document))
    return [dict(zip(document["fields"], row, strict=True)) for row in document["runs"]]


def read_curves(
    browser: requests.Session, client: Client, runs: Sequence[str], metric: str = "loss"
) -> dict[str, tuple[list[float], list[float | None]]]:
    """Return steps and values of some runs' curves, by run."""
    data = read(browser, client, f"/curves?metric={metric}&runs={','.join(runs)}")
    return {curve["run"]: (curve["steps"], curve["values"]) for curve in data["curves"]}
