"""No key, signed address, link or session is in a log, at its most verbose."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import psutil
import requests  # noqa: TID251 - a test is a client of its own

from deployer.backend.data_folder import read_key
from tests.backend.pages_browser import log_in
from tests.backend.two_users import SECRET, make_world
from tests.conftest import ServedBackend

# What every library of the server's logs, too.
VERBOSE = (
    "import logging, sys; logging.basicConfig(level=1);"
    " from uvicorn.logging import TRACE_LOG_LEVEL;"
    " logging.getLogger('uvicorn').setLevel(TRACE_LOG_LEVEL);"
    " from deployer.backend.server.foreground import main; main()"
)


def serve_verbosely(data: Path, log: Path) -> ServedBackend:
    with log.open("wb") as stream:
        process = psutil.Popen(
            [sys.executable, "-c", VERBOSE, "127.0.0.1", "0", str(data)],
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            env={**os.environ, "USER": "tester", "PYTHONASYNCIODEBUG": "1"},
        )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    return ServedBackend(url, read_key(data), "tester", data, process)


def test_what_opens_something_is_in_no_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    served = serve_verbosely(tmp_path / "data", log)
    world = make_world(served)  # uploads, artifacts, agents
    browser = requests.Session()
    log_in(browser, served.url, served.key)
    browser.get(f"{served.url}/api/pages/", timeout=30)
    code = requests.post(f"{served.url}/login/link", auth=("api", served.key), timeout=30).json()
    linked = requests.Session()
    linked.post(f"{served.url}/login", {"link": code["code"]}, timeout=30)
    assert linked.cookies
    fetched = requests.get(served.url + world.names["download"], timeout=30)
    assert SECRET in fetched.text
    refused = secrets.token_hex(20)  # a wrong key is somebody's for another server
    log_in(requests.Session(), served.url, refused)
    requests.post(f"{served.url}/graphql", json={"query": "{"}, auth=("api", refused), timeout=30)
    requests.put(served.url + world.names["upload"] + "0", b"x", timeout=30)  # a broken address
    served.end()
    said = log.read_text()
    assert served.url in said  # it does log
    secrets_used = {
        *(client.key for client in (world.ann, world.eve, world.agent)),
        *(address.split("/")[5] for address in (world.names["upload"], world.names["download"])),
        *(str(value) for session in (browser, linked) for value in session.cookies.values()),
        *(code["code"], refused, world.names["new_key"]),
        (served.data / "signing.key").read_text().strip(),
    }
    assert [secret for secret in secrets_used if secret in said] == []
    assert not re.search(r"(?i)authorization|cookie", said)
