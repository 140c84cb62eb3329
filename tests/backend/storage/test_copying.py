"""A whole backend as a stream: consistent, whole or not at all, never over work of one's own."""

from __future__ import annotations

import base64
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from deployer.agent.server import read_reason
from deployer.backend.data_folder import KEY_FILE
from deployer.backend.db.accounts import ensure_project
from deployer.backend.db.attempts import create_run
from deployer.backend.db.files import promise_file, set_content
from deployer.backend.db.rows import delete
from deployer.backend.server.daemon import backend_status
from deployer.backend.storage.backup import PROOF_FILE, adopt_copy, stream_copy
from deployer.backend.storage.blob_folder import delete_unreferenced, keep
from deployer.errors import BackendError
from tests.backend.bench import Bench
from tests.backend.client import Client, grid
from tests.conftest import ServedBackend, serve_backend


def fetch_copy(backend: ServedBackend, key: str) -> bytes:
    request = urllib.request.Request(f"{backend.url}/deployer/copy")
    credentials = base64.b64encode(f"api:{key}".encode()).decode()
    request.add_header("Authorization", f"Basic {credentials}")
    with urllib.request.urlopen(request) as answer:
        return bytes(answer.read())


def list_wrong_copies(content: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield copies that a reader of tar takes for whole, and what is said of each."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        entries = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        files = {name: stream.read() for name, stream in entries.items() if stream}
    proof = files.pop(PROOF_FILE)
    yield pack(files), "the copy was cut off"
    yield pack({**files, "more": b"x", PROOF_FILE: proof}), "the copy of more differs"
    key = bytes(reversed(files[KEY_FILE]))
    yield pack({**files, KEY_FILE: key, PROOF_FILE: proof}), f"the copy of {KEY_FILE} differs"
    sent = json.loads(proof)
    sent["counts"]["run"] += 1
    yield pack({**files, PROOF_FILE: json.dumps(sent).encode()}), "the copy has .*'run': 1"


def pack(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


@pytest.mark.parametrize("name", ["../more", "/more", "files/../../more", "link"])
def test_a_copy_that_leads_out_of_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        if name == "link":
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(entry)
    made.seek(0)
    with pytest.raises(BackendError, match=f"the copy has '{name}', which a backend never sends"):
        adopt_copy(made, tmp_path / "data")
    assert list(tmp_path.iterdir()) == [tmp_path / "home"]


@pytest.mark.slow
def test_a_copy_has_every_sweep_and_run_and_a_key_of_its_own(tmp_path: Path) -> None:
    served = serve_backend(tmp_path / "from")
    try:
        client = Client.of(served, "copied")
        sweep = client.create_sweep(grid(lr=[1, 2]))
        client.work_once(client.create_agent(sweep), loss=0.5)
        content = fetch_copy(served, served.key)
        copied = adopt_copy(io.BytesIO(content), tmp_path / "to")
        assert copied.counts == {"sweep": 1, "run": 1, "row": 1, "file": 0}
        adopt_copy(io.BytesIO(content), tmp_path / "to")  # again: nothing of its own is lost
        assert backend_status(tmp_path / "to") is None  # it was never served here
        second = serve_backend(tmp_path / "to")
        try:
            assert second.key != served.key
            there = Client.of(second, "copied")
            assert there.sweep(sweep)["runs"] == client.sweep(sweep)["runs"]
            assert len(there.sweep(sweep)["runs"]["edges"]) == 1
            there.create_sweep(grid(lr=[3]))
        finally:
            second.end()
        assert backend_status(tmp_path / "to") is not None
        with pytest.raises(BackendError, match=r"has sweeps and runs of its own \(1\)"):
            adopt_copy(io.BytesIO(content), tmp_path / "to")
        with pytest.raises(BackendError, match="the copy was cut off"):
            adopt_copy(io.BytesIO(content[: len(content) // 2]), tmp_path / "third")
        for wrong, said in list_wrong_copies(content):
            with pytest.raises(BackendError, match=said):
                adopt_copy(io.BytesIO(wrong), tmp_path / "third")
        assert not (tmp_path / "third").exists()
        with pytest.raises(BackendError, match="is already being served"):
            adopt_copy(io.BytesIO(content), tmp_path / "from")
    finally:
        served.end()


INTERRUPTED = """
import os, signal, sys
from pathlib import Path
from deployer.backend.storage.backup import adopt_copy

def interrupt(event, arguments):
    if event == "os.rename" and arguments[1] == data and os.path.basename(arguments[0]) == "fresh":
        os.kill(os.getpid(), signal.SIGINT)

copy, data = sys.argv[1:]
sys.addaudithook(interrupt)
with open(copy, "rb") as stream:
    adopt_copy(stream, Path(data))
"""


def test_an_interrupt_as_a_copy_takes_its_place_loses_nothing(
    backend: ServedBackend, tmp_path: Path
) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    copy.write_bytes(fetch_copy(backend, backend.key))
    with copy.open("rb") as stream:
        adopt_copy(stream, data)
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    command = [sys.executable, "-c", INTERRUPTED, str(copy), str(data)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "KeyboardInterrupt" in ended.stderr
    assert {path: path.read_bytes() for path in before if path.exists()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"copy", "data", "home"}


def test_agents_write_while_the_database_is_copied(bench: Bench) -> None:
    backend = bench.backend
    copied: list[bytes] = []
    stream = stream_copy(backend.folder, backend.blobs)
    with backend.store.transaction() as db:
        ensure_project(db, bench.me, None, "p", 0)
        copying = threading.Thread(target=lambda: copied.append(next(stream)), daemon=True)
        copying.start()
        copying.join(20)
        assert copied
    stream.close()


def test_bytes_stay_until_a_copy_has_them(bench: Bench) -> None:
    backend, folder = bench.backend, bench.backend.blobs
    with backend.store.transaction() as db:
        project = ensure_project(db, bench.me, None, "p", 0)
        file = promise_file(db, create_run(db, bench.me, project, "r", 0).id, "a")
        set_content(db, file, keep(db, folder, bench.me.user.id, folder.write(b"kept"), 0), 0)
        delete(db, file)
    with folder.collecting:
        delete_unreferenced(backend.store, folder)
        assert len(os.listdir(folder.content)) == 1
    delete_unreferenced(backend.store, folder)
    assert os.listdir(folder.content) == []


def test_a_copy_that_cannot_be_made_is_refused_with_its_reason(tmp_path: Path) -> None:
    served = serve_backend(tmp_path / "data")
    try:
        limit = (4096, resource.RLIM_INFINITY)  # a write that goes beyond fails, as on a full disk
        resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, limit)
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetch_copy(served, served.key)
        assert refused.value.code == 503
        assert "the backend's storage is unavailable" in read_reason(refused.value)
        assert not list(served.data.glob(".copy-*"))
    finally:
        served.kill()


def test_only_the_owner_may_copy(backend: ServedBackend, plain_backend: ServedBackend) -> None:
    for one, key in ((backend, "f" * 40), (backend, ""), (plain_backend, plain_backend.key)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetch_copy(one, key)
        assert refused.value.code == 403


@pytest.mark.slow
def test_a_key_that_is_brought_is_the_users_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    monkeypatch.setenv("DEPLOYER_BACKEND_KEY_FILE", str(file))
    keys: list[str] = []
    cut_off = tmp_path / "data/.copy-old/files"
    cut_off.mkdir(parents=True)
    for key in ("a" * 40, "b" * 40, "b" * 40):
        file.write_text(f"{key}\n")
        served = serve_backend(tmp_path / "data")
        try:
            assert served.key == key
            assert Client.of(served, "p").ask("{ viewer { entity } }")["viewer"]["entity"]
            for old in keys:
                if old != key:
                    with pytest.raises(urllib.error.HTTPError):
                        fetch_copy(served, old)
        finally:
            served.end()
        keys.append(key)
    assert not cut_off.parent.exists()
