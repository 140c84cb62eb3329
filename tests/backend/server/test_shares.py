"""A user who floods the server keeps nobody else waiting."""

from __future__ import annotations

import base64
import http.client
import json
import secrets
import select
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.backend.client import Client, add_user, grid
from tests.conftest import serve_backend

FLOOD = 400  # seconds of work, and more than there are threads of any kind
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
        flood = [send(ann, f"{SLOW[kind]} #{number}") for number in range(FLOOD)]
        before = 0
        while before < FLOOD / 10:  # until then, the server is busy with taking them in
            time.sleep(0.05)
            before = count_answered(flood)
        assert eve.heartbeat(agent)
        assert eve.ask("{ viewer { id } }")
        assert count_answered(flood) - before < FLOOD / 2
    finally:
        served.kill()


def count_answered(flood: Sequence[socket.socket]) -> int:
    """Return how many have an answer."""
    answered, _, _ = select.select(flood, [], [], 0)
    return len(answered)


def send(client: Client, query: str) -> socket.socket:
    """Send a request and return its socket, which is ready to be read once there is an answer.

    No thread waits for it: a hundred of them would keep the other user's client waiting.
    """
    connection = http.client.HTTPConnection(urlsplit(client.url).netloc)
    login = base64.b64encode(f"api:{client.key}".encode()).decode()
    body = json.dumps({"query": query, "variables": {"project": client.project}})
    connection.request(
        "POST",
        "/graphql",
        body,
        {"Authorization": f"Basic {login}", "Content-Type": "application/json"},
    )
    return connection.sock
