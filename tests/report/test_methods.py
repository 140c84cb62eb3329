"""A report of each kind of sweep that there is a recipe for."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from deployer.report.collection import collect
from deployer.report.content import build_html, hold
from tests.backend.client import Client
from tests.browser.sweeps import make_sweep
from tests.conftest import ServedBackend
from tests.report.served import NOW, open_server, path_of

LISTS = {"lr": {"values": [0.1, 0.01]}, "optimizer": {"values": ["sgd", "a|b"]}}
HYPERBAND = {"early_terminate": {"type": "hyperband", "min_iter": 3}}


@pytest.mark.parametrize(
    "config",
    [
        {"method": "grid", "parameters": LISTS, "run_cap": None},
        {"method": "random"},
        {"method": "bayes"},
        {"method": "random", **HYPERBAND},
    ],
    ids=["grid", "random", "bayes", "early_terminate"],
)
def test_a_report_of_each_method(
    config: dict[str, Any], backend: ServedBackend, request: pytest.FixtureRequest
) -> None:
    client = Client.of(backend, re.sub(r"\W+", "-", request.node.name))
    chosen = {name: value for name, value in config.items() if value is not None}
    sweep = make_sweep(client, 3, **chosen)
    found = collect(open_server(client), path_of(client, sweep), NOW)
    [documents] = re.findall(r'id="documents">(.*?)</script>', build_html(found))
    held = hold(found)
    report = json.loads(documents)["pages"][held.start]["report"]
    assert held.pages[held.start]["report"]["coverage"] == report["coverage"]
    assert report["coverage"]["finished"] == 3
    assert [file["name"] for file in report["files"]] == ["sweep.yaml"]
    assert f"method: {config['method']}" in report["files"][0]["text"]
