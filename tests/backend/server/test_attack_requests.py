"""What is refused whoever asks: slow clients, other hosts, other sites, more than a share."""

from __future__ import annotations

import json
import os
import resource
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import requests  # noqa: TID251 - an attacker is a client of its own

from deployer.backend.server.gate import DEFAULT_HEADERS, is_local
from tests.backend.client import Client, add_user
from tests.backend.pages_browser import log_in
from tests.backend.two_users import FILES
from tests.conftest import ServedBackend, serve_backend

MOST = 2
PROXY = "https://sweeps.example.org"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBackend]:
    """A backend that waits for nobody and answers two requests of a key at a time."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "HEADER_SECONDS": 0.5,
            "BODY_SECONDS": 1.0,
            "LEAST_BYTES": 64,
            "TAKING_SECONDS": 0.5,
            "MOST_REQUESTS": MOST,
            "PUBLIC_URL": PROXY,
        }.items():
            patch.setenv(f"DEPLOYER_BACKEND_{name}", str(value))
        served = serve_backend(tmp_path_factory.mktemp("strict") / "data")
    yield served
    served.end()


def connect(served: ServedBackend) -> socket.socket:
    address = urlsplit(served.url)
    return socket.create_connection((address.hostname, address.port), timeout=30)


HEAD = b"POST /graphql HTTP/1.1\r\nHost: localhost\r\n"
BODY = HEAD + b"Content-Length: 100000\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "drop"),
    [
        (b"", b""),
        (b"", b"\r\n"),
        (b"", b"P"),
        (HEAD, b"x"),
        (BODY, b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\r\n"),
    ],
    ids=["nothing", "line breaks", "method", "header", "body", "chunks", "second request"],
)
def test_a_client_that_sends_next_to_nothing_is_sent_away(
    strict: ServedBackend, begin: bytes, drop: bytes
) -> None:
    """Drop by drop until the server ends it; others are answered meanwhile."""
    with connect(strict) as slow:
        slow.sendall(begin)
        slow.settimeout(0.1)
        for _ in range(600):
            assert requests.get(f"{strict.url}/healthz", timeout=30).text == "ok"
            try:
                slow.sendall(drop)
                if not slow.recv(4096):
                    break
            except TimeoutError:
                continue
            except OSError:  # reset: it was ended between two drops
                break
        else:
            pytest.fail("the server holds the connection for ever")


def test_a_client_that_makes_progress_is_waited_for(strict: ServedBackend) -> None:
    """Longer than any of the waiting times."""
    body = json.dumps({"query": "{ viewer { username } }", "padding": "x" * 20_000}).encode()
    begun = time.monotonic()

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(body), 200):
            yield body[start : start + 200]
            time.sleep(0.02)

    reply = requests.post(f"{strict.url}/graphql", pieces(), auth=("api", strict.key), timeout=30)
    assert (reply.status_code, reply.json()["data"]["viewer"]["username"]) == (200, strict.entity)
    assert time.monotonic() - begun > 1.5


def test_a_client_that_takes_nothing_is_sent_away(strict: ServedBackend) -> None:
    client = Client.of(strict, "big")
    client.init_run("r")
    client.log("r", [{"_step": 0, "text": "x" * 20_000_000}])
    with connect(strict) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        question = '{ project(name: "big") { run(name: "r") { history } } }'
        asked = json.dumps({"query": question}).encode()
        credentials = requests.Request("POST", strict.url, auth=("api", strict.key)).prepare()
        slow.sendall(
            HEAD
            + f"Authorization: {credentials.headers['Authorization']}\r\n".encode()
            + f"Content-Length: {len(asked)}\r\n\r\n".encode()
            + asked
        )
        slow.recv(1)
        deadline = time.monotonic() + 30
        while is_held(strict, slow):
            assert time.monotonic() < deadline, "the server holds the connection for ever"
            time.sleep(0.1)


def is_held(served: ServedBackend, client: socket.socket) -> bool:
    """Tell whether the server's process still has its end of a connection."""
    sockets = {os.readlink(fd) for fd in Path(f"/proc/{served.process.pid}/fd").iterdir()}
    port = f":{client.getsockname()[1]:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return any(row[2].endswith(port) and f"socket:[{row[9]}]" in sockets for row in rows)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("evil.example:80", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("169.254.169.254", 421),
        ("[::1", 421),
        ("sweeps.example.org.evil.example", 421),
        ("sweeps.example.org:8443", 421),
        ("localhost", 200),
        ("localhost:1234", 200),
        ("pages.localhost", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("sweeps.example.org", 200),
        ("SWEEPS.example.org:443", 200),
    ],
)
def test_a_server_of_this_machine_has_its_own_names_alone(
    strict: ServedBackend, host: str, status: int
) -> None:
    """A page elsewhere whose name leads here is a stranger: a browser sends that name."""
    for path in ("/healthz", "/login"):
        reply = requests.get(strict.url + path, headers={"Host": host}, timeout=30)
        assert reply.status_code == status, reply.text


@pytest.mark.parametrize(
    ("headers", "statuses"),
    [
        (b"Host: evil.example\r\n", {b"400"}),
        (b"X: y\r\n" * 250, {b"431"}),
        (b"X: " + b"y" * 70_000 + b"\r\n", {b"400", b"431"}),
        (b"X: " + b"y" * 20_000_000, {b"400", b"431"}),
        (b"X: y\r\n" * 3_000_000, {b"400", b"431"}),
    ],
    ids=["second host", "many", "long", "very long", "very many"],
)
def test_more_headers_than_any_client_sends(
    strict: ServedBackend, headers: bytes, statuses: set[bytes]
) -> None:
    """The parser may refuse them before we do; none of them is gathered in memory."""
    process = psutil.Process(strict.process.pid)
    before = process.memory_info().rss  # with what a fork has of its test process
    with connect(strict) as client:
        with suppress(OSError):  # it is ended before all is sent
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n")
        with suppress(ConnectionResetError):
            assert client.recv(4096)[9:12] in statuses
    assert process.memory_info().rss - before < 400_000_000
    assert requests.get(f"{strict.url}/healthz", timeout=30).text == "ok"


@pytest.mark.parametrize(
    "limited", ["from its start", pytest.param("later", marks=pytest.mark.full)]
)
def test_out_of_file_descriptors_and_back(tmp_path: Path, limited: str) -> None:
    """What comes then waits, and the log of `backend serve`, which is text, says it in a line."""
    log, limit = tmp_path / "log", f"ulimit -n {100 if limited == 'from its start' else 1000}"
    serve = f"{limit}; exec {sys.executable} -m deployer backend serve --data {tmp_path / 'data'}"
    with log.open("wb") as stream:
        process = psutil.Popen(["bash", "-c", serve], stdout=subprocess.PIPE, stderr=stream)
    assert process.stdout is not None
    url = process.stdout.readline().decode().strip()
    served = ServedBackend(url, "", "", tmp_path / "data", process)
    if limited == "later":
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (100, 1000))
    greedy = [connect(served) for _ in range(200)]
    with pytest.raises(requests.Timeout):
        requests.get(f"{served.url}/healthz", timeout=2)
    for one in greedy:
        one.close()
    begun = time.monotonic()
    assert requests.get(f"{served.url}/healthz", timeout=30).text == "ok"
    assert time.monotonic() - begun < 5
    served.end()
    said = [line for line in log.read_text().splitlines() if " ERROR " in line]
    what = "connections are open" if limited == "from its start" else "could not be accepted"
    assert 1 <= len(said) <= 5
    assert what in said[0]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "backend", ""])
def test_an_address_for_others_is_not_of_this_machine_alone(host: str) -> None:
    assert not is_local(f"[{host}]" if ":" in host else host)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
@pytest.mark.parametrize(
    "path", ["/login", "/login/link", "/logout", "/graphql", "/files/a/b/c/file_stream"]
)
def test_nothing_is_done_for_a_page_of_another_site(
    strict: ServedBackend, path: str, origin: str
) -> None:
    browser = requests.Session()
    log_in(browser, strict.url, strict.key)
    reply = browser.post(
        strict.url + path, auth=("api", strict.key), headers={"Origin": origin}, timeout=30
    )
    assert (reply.status_code, "another site" in reply.text) == (403, True)
    assert browser.get(f"{strict.url}/api/pages/", timeout=30).status_code == 200


def test_a_key_has_its_share_and_others_theirs(strict: ServedBackend) -> None:
    name, key = f"eve-{secrets.token_hex(4)}", secrets.token_hex(20)
    add_user(strict, name, key)
    greedy, other = requests.Session(), requests.Session()
    log_in(greedy, strict.url, strict.key)
    log_in(other, strict.url, key)
    page = f"{strict.url}/api/pages/"
    streams = [
        greedy.get(f"{strict.url}/api/events/", stream=True, timeout=30) for _ in range(MOST)
    ]
    refused = greedy.get(page, timeout=30)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert other.get(page, timeout=30).status_code == 200
    assert requests.get(f"{strict.url}/healthz", timeout=30).status_code == 200
    for stream in streams:
        stream.close()
    deadline = time.monotonic() + 30
    while greedy.get(page, timeout=30).status_code != 200:
        assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/"),
        ("GET", "/login"),
        ("GET", "/nothing/here/at/all"),
        ("GET", "/files/a/b/c/d"),
        ("PUT", "/upload/run_files/1/2/x"),
        ("POST", "/graphql"),
        ("DELETE", "/graphql"),
        ("POST", "/login"),
    ],
)
def test_every_answer_tells_a_browser_to_do_nothing_with_it(
    strict: ServedBackend, method: str, path: str
) -> None:
    reply = requests.request(method, strict.url + path, allow_redirects=False, timeout=30)
    assert DEFAULT_HEADERS.keys() <= {name.title() for name in reply.headers} | {
        "X-Content-Type-Options"
    }
    assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "server" not in reply.headers


FORGED = {
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-For": "10.0.0.1",
    "Forwarded": "host=evil.example;proto=https",
}


@pytest.mark.parametrize("host", ["", "sweeps.example.org"])
def test_an_address_is_where_the_proxy_is_and_never_where_a_header_says(
    strict: ServedBackend, host: str
) -> None:
    client = Client.of(strict, "addresses")
    client.init_run("r")
    wanted = {"entityName": client.entity, "projectName": "addresses", "runName": "r"}
    body = {"query": FILES, "variables": {"input": {**wanted, "files": ["f"]}}}
    reply = requests.post(
        f"{strict.url}/graphql",
        json=body,
        auth=("api", strict.key),
        headers={**FORGED, **({"Host": host} if host else {})},
        timeout=30,
    )
    (file,) = reply.json()["data"]["createRunFiles"]["files"]
    assert file["uploadUrl"].startswith(f"{PROXY if host else strict.url}/upload/")
