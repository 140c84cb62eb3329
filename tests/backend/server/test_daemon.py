"""The backend of this machine: versions that do not fit, one that hangs, a full disk, stopping."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from starlette.requests import Request

from deployer.backend.data_folder import FolderLock, is_served, read_server_id
from deployer.backend.db.store import DATABASE, OLDEST, SCHEMA, Database
from deployer.backend.server.app import build_app
from deployer.backend.server.daemon import (
    Health,
    backend_status,
    revive_backend,
    start_backend,
    stop_backend,
)
from deployer.backend.server.foreground import serve
from deployer.errors import BackendError, BackendStopped
from tests.backend.bench import KEY, Bench
from tests.backend.client import Client
from tests.backend.db.test_migrations import OLDEST_FILE
from tests.conftest import END_SECONDS, ServedBackend, serve_backend
from tests.forked import fork_backend


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedBackend]:
    """A server of the test's own, which it may stop or spoil."""
    made = serve_backend(tmp_path / "data")
    yield made
    made.kill()


def set_schema(data: Path, version: int) -> None:
    connection = sqlite3.connect(data / DATABASE)
    connection.execute(f"PRAGMA user_version={version}")
    connection.close()


def read_schema(data: Path) -> int:
    connection = sqlite3.connect(data / DATABASE)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(version)


@pytest.mark.parametrize(("version", "word"), [(SCHEMA - 1, "older"), (SCHEMA + 1, "newer")])
def test_a_client_changes_nothing_under_a_server_of_another_version(
    served: ServedBackend, version: int, word: str
) -> None:
    set_schema(served.data, version)
    with pytest.raises(BackendError, match=f"by an? {word} deployer"):
        Database(served.data / DATABASE)
    with pytest.raises(BackendError, match=f"by an? {word} deployer"):
        start_backend(served.data)
    status = backend_status(served.data)
    assert status is not None
    assert (status.entity, status.health) == ("tester", Health.READY)
    assert read_schema(served.data) == version


def test_only_a_server_brings_an_older_folder_up_to_date(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / DATABASE)
    connection.executescript(OLDEST_FILE.read_text())
    connection.close()
    with pytest.raises(BackendError, match="older") as refused:
        Database(tmp_path / DATABASE)
    assert "deployer backend up" in refused.value.hint
    assert read_schema(tmp_path) == OLDEST
    Database(tmp_path / DATABASE, migrating=True).close()
    assert read_schema(tmp_path) == SCHEMA


def test_a_newer_folder_is_not_served(tmp_path: Path) -> None:
    Database(tmp_path / DATABASE, migrating=True).close()
    set_schema(tmp_path, SCHEMA + 1)
    with pytest.raises(BackendError, match="newer") as refused:
        serve("127.0.0.1", 0, tmp_path)
    assert "update" in refused.value.hint


def test_a_folder_without_its_database_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "address.json").write_text('{"url": "http://127.0.0.1:1"}')
    (tmp_path / "key").write_text("k" * 40)
    with pytest.raises(BackendError, match=r"backend\.sqlite: unable to open"):
        backend_status(tmp_path)


@pytest.mark.full
@pytest.mark.slow
def test_a_server_that_hangs_is_told_by_that_name(served: ServedBackend) -> None:
    os.kill(served.process.pid, signal.SIGSTOP)
    status = backend_status(served.data)
    assert status is not None
    assert (status.running, status.health) == (True, Health.HUNG)
    for act in (start_backend, revive_backend):
        with pytest.raises(BackendError, match=f"hangs: process {served.process.pid}"):
            act(served.data)
    os.kill(served.process.pid, signal.SIGCONT)
    assert start_backend(served.data).health is Health.READY


def test_a_backend_that_was_stopped_is_not_started_again_by_a_watcher(
    served: ServedBackend,
) -> None:
    served.kill()
    assert revive_backend(served.data)
    assert not revive_backend(served.data)
    assert stop_backend(served.data)
    with pytest.raises(BackendStopped):
        revive_backend(served.data)
    assert start_backend(served.data).running
    assert not revive_backend(served.data)
    assert stop_backend(served.data, for_good=False)
    assert revive_backend(served.data)
    stop_backend(served.data)


def test_down_ends_a_server_that_is_starting_and_no_other_process(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    stranger = subprocess.Popen(["sleep", "600"])
    before = {"url": "http://127.0.0.1:1", "pid": stranger.pid}  # as if the id were reused
    (data / "address.json").write_text(json.dumps(before))
    held = sqlite3.connect(data / DATABASE, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")  # for which the server waits as it starts
    server, said = fork_backend(["127.0.0.1", "0", str(data)], os.environ)
    try:
        while not is_served(data):
            assert server.is_running()
        assert stop_backend(data)
        assert server.wait(END_SECONDS) == -signal.SIGTERM
        assert stranger.poll() is None
    finally:
        os.close(said)
        with suppress(psutil.NoSuchProcess):
            server.kill()
        held.close()
        stranger.kill()
        stranger.wait()


def test_down_ends_no_command_that_needs_the_folder_for_itself(tmp_path: Path) -> None:
    with FolderLock(tmp_path, serving=True):
        pass
    with FolderLock(tmp_path):
        assert (is_served(tmp_path), read_server_id(tmp_path)) == (True, None)
    with FolderLock(tmp_path, serving=True):
        assert read_server_id(tmp_path) == os.getpid()
    assert read_server_id(tmp_path) is None


def test_a_key_whose_user_was_not_written_is_the_first_users(tmp_path: Path) -> None:
    """A full disk can undo the user and leave the key's file."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "key").write_text("k" * 40)
    served = serve_backend(data)
    try:
        assert Client.of(served, "p").ask("{ viewer { entity } }")["viewer"]["entity"] == "tester"
        assert served.key == "k" * 40
    finally:
        served.kill()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "files").touch()
    with pytest.raises(BackendError, match=r"exits during startup: .*files"):
        start_backend(tmp_path)


def test_a_full_disk_is_called_so(bench: Bench) -> None:
    app = build_app(bench.backend)
    assert ask(app, "GET", "/healthz") == (200, "ok")
    with bench.backend.store.transaction() as db:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
    bench.backend.store._connection.execute(f"PRAGMA max_page_count={pages}")
    text = "x" * 90_000
    document = f'mutation {{ upsertBucket(input: {{name: "r", notes: "{text}"}}) {{ inserted }} }}'
    status, said = ask(app, "POST", "/graphql", json.dumps({"query": document}))
    assert (status, "the backend's disk is full" in said) == (507, True)
    assert ask(app, "GET", "/healthz") == (200, "disk full")


def ask(app: object, method: str, path: str, body: str = "") -> tuple[int, str]:
    """Ask an application without a network."""
    sent: list[dict[str, object]] = []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {KEY}".encode()), (b"host", b"here")],
    }

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body.encode()}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    assert Request(scope).method == method
    asyncio.run(app(scope, receive, send))  # type: ignore[operator]
    return (
        int(str(sent[0]["status"])),
        b"".join(
            bytes(part.get("body", b""))  # type: ignore[call-overload]
            for part in sent[1:]
        ).decode(),
    )
