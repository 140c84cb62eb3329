"""A report of many runs is one file of a bounded size, read in few requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.model import SweepPath
from deployer.report.collection import collect
from deployer.report.content import build_html
from tests.backend.bench import KEY
from tests.backend.client import Client
from tests.bench.page import fill_sweep
from tests.conftest import serve_backend
from tests.faults.proxy import FaultProxy
from tests.report.served import NOW, open_server

RUNS, MOST_REQUESTS = 1_000, 20
MOST_BYTES = 4_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags", [("plain",), pytest.param((), marks=pytest.mark.full)], ids=["plain", "ours"]
)
def test_a_thousand_runs_are_read_in_few_requests(tmp_path: Path, flags: tuple[str, ...]) -> None:
    sweep = fill_sweep(tmp_path, RUNS).name
    served = serve_backend(tmp_path, *flags)
    try:
        with FaultProxy(served.url) as proxy:
            server = open_server(Client(served.url, KEY, "me", "p"), proxy.url)
            found = collect(server, SweepPath("me", "p", sweep), NOW)
            assert len(proxy.journal) <= MOST_REQUESTS
    finally:
        served.end()
    assert len(found.results.rows) == RUNS
    assert len(build_html(found).encode()) < MOST_BYTES
