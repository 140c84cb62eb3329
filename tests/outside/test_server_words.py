"""What W&B's servers answer otherwise than the embedded backend does, as their clients say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from deployer.model import SweepPath
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import get_log_page

LOGS = yaml.safe_load(Path(__file__).with_name("wandb-server-logs.yaml").read_text())
PATH = SweepPath("e", "p", "s")


class OldServer(BaseHTTPRequestHandler):
    """Answers as a server before 0.77."""

    run: Mapping[str, Any] = LOGS["tail"]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "useImprovedPagination" in asked["query"]:
            said: object = {"errors": [{"message": LOGS["unknown_argument"]}]}
        else:
            lines = (self.run["logLines"] or {"edges": []})["edges"][-asked["variables"]["last"] :]
            found = {"edges": lines} if lines else None
            said = {"data": {"project": {"run": {**self.run, "logLines": found}}}}
        text = json.dumps(said).encode()
        self.send_response(400 if "errors" in json.loads(text) else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.mark.parametrize(
    ("run", "after", "lines", "cursor"),
    [
        ("tail", None, ("one", "two", "three"), "3"),
        ("tail", "1", ("two", "three"), "3"),
        ("tail", "3", (), "3"),
        ("nothing", None, (), "0"),
    ],
)
def test_a_console_is_read_forwards_on_an_older_server(
    run: str, after: str | None, lines: tuple[str, ...], cursor: str
) -> None:
    handler = type("Handler", (OldServer,), {"run": LOGS[run]})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            client = Client(f"http://127.0.0.1:{server.server_port}", "k" * 40)
            page = get_log_page(client, PATH, "r", after)
        finally:
            server.shutdown()
            thread.join()
    assert (page.lines, page.cursor) == (lines, cursor)
    assert (page.run_state, page.total) == ("running", LOGS[run]["logLineCount"])
