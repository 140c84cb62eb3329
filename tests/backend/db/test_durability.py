"""What was answered is there: after kills of the server, and after the power was cut."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from deployer.backend.db.lines import count_lines, read_lines
from deployer.backend.db.store import DATABASE, Database
from tests.backend.client import Client
from tests.conftest import ServedBackend, serve_backend

WRITERS = 4
LINES = 5
STEP = 15  # chunks that are answered from one kill to the next


class Writer(threading.Thread):
    """Sends a run's history and counts what is answered; what is not, it sends again."""

    def __init__(self, client: Client, name: str, answered: threading.Semaphore) -> None:
        super().__init__(daemon=True)
        self.name, self.lines = name, 0
        self.over = threading.Event()
        self._client, self._answered = client, answered

    def run(self) -> None:
        answered = True  # what was not is sent again to the last: the server may have it
        while not (self.over.is_set() and answered):
            answered = send(self._client, self.name, self.lines)
            if answered:
                self.lines += LINES
                self._answered.release()
            else:
                self.over.wait(0.1)


def send(client: Client, run: str, offset: int) -> bool:
    rows = [json.dumps({"_step": number}) for number in range(offset, offset + LINES)]
    files = {"wandb-history.jsonl": {"offset": offset, "content": rows}}
    try:
        return client.stream(run, files=files).status_code == 200
    except requests.RequestException:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("kills", [8, pytest.param(1000, marks=pytest.mark.full)])
def test_no_line_is_lost_or_doubled_whenever_the_server_is_killed(
    tmp_path: Path, kills: int
) -> None:
    served = serve_backend(tmp_path / "data")
    port = int(served.url.rpartition(":")[2])
    client = Client.of(served, "kills")
    answered = threading.Semaphore(0)
    writers = [Writer(client, f"run-{number}", answered) for number in range(WRITERS)]
    for writer in writers:
        client.init_run(writer.name)
        writer.start()
    for _ in range(kills):
        for _ in range(random.randrange(STEP)):
            answered.acquire()
        served.kill()
        served = serve_backend(tmp_path / "data", port=port)
    for writer in writers:
        writer.over.set()
        writer.join()
    counted = {writer.name: client.run(writer.name)["historyLineCount"] for writer in writers}
    served.end()
    assert counted == {writer.name: writer.lines for writer in writers}
    for writer in writers:
        assert read_steps(tmp_path / "data", writer.name) == list(range(writer.lines))


def read_steps(data: Path, name: str) -> list[int]:
    """Return the steps of a run's history as they lie in a data folder that nobody serves."""
    store = Database(data / DATABASE)
    with store.snapshot() as db:
        (run,) = db.execute("SELECT id FROM runs WHERE name = ?", (name,)).fetchone()
        lines = read_lines(db, run, "history")
        assert count_lines(db, run, "history") == len(lines)
    store.close()
    return [json.loads(text)["_step"] for _, text in lines]


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedBackend]:
    """Serve a backend whose syncs are noted in `synced`."""
    library = tmp_path / "synced.so"
    source = Path(__file__).with_name("synced.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("SYNCED_LOG", str(tmp_path / "synced"))
    served = serve_backend(tmp_path / "data", afresh=True)
    yield served
    served.kill()


@pytest.mark.slow
def test_what_was_answered_survives_a_power_cut(watched: ServedBackend, tmp_path: Path) -> None:
    client = Client.of(watched, "power")
    client.init_run("run")
    log = watched.data / f"{DATABASE}-wal"
    safe: list[int] = []  # bytes of the log on the disk when so many chunks had been answered
    for number in range(20):
        assert send(client, "run", LINES * number)
        safe.append(read_synced(tmp_path / "synced", log))
    watched.kill()
    for answered, size in enumerate(safe, 1):
        left = cut_power(watched.data, tmp_path / f"cut-{answered}", size)
        steps = read_steps(left, "run")
        assert len(steps) >= LINES * answered
        assert steps == list(range(len(steps)))


def read_synced(noted: Path, file: Path) -> int:
    """Return the size that a file had when it was synced last."""
    found = [line.split(" ", 1) for line in noted.read_text().splitlines()]
    return next(int(size) for size, path in reversed(found) if path == str(file))


def cut_power(data: Path, left: Path, size: int) -> Path:
    """Copy a data folder as a power cut leaves it: behind what was synced there is anything."""
    shutil.copytree(data, left, ignore=shutil.ignore_patterns("*-shm", "backend.lock"))
    log = left / f"{DATABASE}-wal"
    with log.open("r+b") as stream:
        stream.truncate(size)
        stream.seek(size)
        stream.write(os.urandom(5000))
    return left
