"""A user who floods the server keeps nobody else waiting."""

from __future__ import annotations

import secrets
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from tests.backend.client import Client, add_user, grid
from tests.conftest import serve_backend

FLOOD = 120  # more than there are threads of any kind
UNKNOWN = " ".join(f"x{number}: 1" for number in range(200))
HISTORIES = " ".join(f"a{number}: history" for number in range(10))
SLOW = {
    "documents": f"mutation {{ upsertSweep(input: {{{UNKNOWN}}}) {{ sweep {{ id }} }} }}",
    "queries": "query($project: String!)"
    f' {{ project(name: $project) {{ run(name: "r") {{ {HISTORIES} }} }} }}',
}


@pytest.mark.slow(seconds=6)
@pytest.mark.parametrize("kind", SLOW)
def test_a_flood_of_slow_requests_keeps_no_other_user_waiting(tmp_path: Path, kind: str) -> None:
    served = serve_backend(tmp_path / "data")
    try:
        ann = Client.of(served, "flood")
        ann.init_run("r")
        ann.log("r", [{"_step": step, "loss": step / 7} for step in range(4000)])
        key = secrets.token_hex(20)
        add_user(served, "eve", key)
        eve = Client(served.url, key, "eve", "calm")
        agent = eve.create_agent(eve.create_sweep(grid(x=[1, 2])))
        with ThreadPoolExecutor(FLOOD) as pool:
            flood = [pool.submit(ann.post, f"{SLOW[kind]} #{n}") for n in range(FLOOD)]
            wait(flood, return_when=FIRST_COMPLETED)
            assert eve.heartbeat(agent)
            assert eve.ask("{ viewer { id } }")
            answered = sum(one.done() for one in flood)
            served.kill()
        assert answered < FLOOD / 2
    finally:
        served.kill()
