"""Where an agent's pod is: its supervisor tells, whether or not the server knows the question."""

from __future__ import annotations

import dataclasses
import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests  # noqa: TID251 - a test is a client of its own

from deployer.agent.server import ServerAddress, bring_own_key
from tests.backend.client import Client, grid
from tests.backend.pages_browser import read

GIVEN_KEY = (
    "mutation K($path: String!, $name: String!) { deployerCreateAgentKey("
    "input: {sweepPath: $path, agentName: $name}) { key } }"
)


class OlderBackend(BaseHTTPRequestHandler):
    """A server that knows an agent's own key, but not the node that comes with it."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        refused = {"errors": [{"message": "Field 'node' is not defined by type 'Input'."}]}
        key = asked["variables"]["key"]
        answer = refused if "node" in asked["query"] else {"data": {"key": key}}
        body = json.dumps(answer).encode()
        self.send_response(400 if answer is refused else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def join(client: Client, sweep: str, name: str, node: str) -> None:
    """Do what a supervisor does before its agent works, and then the agent's first request."""
    path = f"{client.entity}/{client.project}/{sweep}"
    given = client.ask(GIVEN_KEY, path=path, name=name)["deployerCreateAgentKey"]["key"]
    own = secrets.token_hex(20)
    assert not bring_own_key(ServerAddress(client.url, given), path, name, own, node).error
    agent = dataclasses.replace(client, key=own)
    agent.heartbeat(agent.create_agent(sweep, f"{name}-abcde"))


def test_the_page_shows_the_node_that_a_supervisor_tells(
    client: Client, browser: requests.Session
) -> None:
    sweep = client.create_sweep(grid(x=[1, 2, 3]))
    join(client, sweep, "one", "gpu-node-7")
    join(client, sweep, "two", "")
    client.heartbeat(client.create_agent(sweep, "by-hand"))
    agents = read(browser, client, f"/sweeps/{sweep}")["agents"]
    assert {agent["host"]: agent["node"] for agent in agents} == {
        "one-abcde": "gpu-node-7",
        "two-abcde": "",
        "by-hand": "",
    }


def test_an_older_backend_takes_the_key_without_the_node() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), OlderBackend)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        reply = bring_own_key(ServerAddress(url, "k"), "me/p/s", "one", "new", "gpu-node-7")
    finally:
        server.shutdown()
        server.server_close()
    assert (reply.status, reply.error, reply.data) == (200, "", {"key": "new"})
