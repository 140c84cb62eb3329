"""Files of runs: signed addresses, what has come whole, what is refused, what is deleted."""

from __future__ import annotations

import base64
import hashlib
import os
import resource
import secrets
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from deployer.backend.db.accounts import ensure_project
from deployer.backend.db.attempts import create_run
from deployer.backend.db.files import File, promise_file, set_content
from deployer.backend.db.rows import delete, get
from deployer.backend.request import NoSpace, Refusal
from deployer.backend.storage.blob_folder import (
    SECONDS,
    Signer,
    delete_unreferenced,
    keep,
    load_signer,
)
from tests.backend.bench import Bench
from tests.backend.client import Client
from tests.conftest import ServedBackend, serve_backend

CREATE = (
    "mutation C($entity: String!, $project: String!, $files: [String!]!)"
    '{ createRunFiles(input: {entityName: $entity, projectName: $project, runName: "r",'
    " files: $files}) { runID uploadHeaders files { name uploadUrl } } }"
)
LIST = (
    "query F($project: String!, $first: Int, $after: String, $names: [String], $pattern: String)"
    '{ project(name: $project) { run(name: "r") { fileCount files(first: $first, after: $after,'
    " names: $names, pattern: $pattern) { pageInfo { hasNextPage endCursor } totalCount"
    " edges { cursor node { id name url directUrl sizeBytes md5 mimetype } } } } } }"
)
DELETE = "mutation D($files: [ID!]!) { deleteFiles(input: {files: $files}) { success } }"


@pytest.fixture
def client(backend: ServedBackend, request: pytest.FixtureRequest) -> Client:
    client = Client.of(backend, request.node.name)
    client.init_run("r")
    return client


def promise(client: Client, *names: str) -> list[Any]:
    reply = client.ask(CREATE, entity=client.entity, files=list(names))["createRunFiles"]
    return [file["uploadUrl"] for file in reply["files"]]


def send(client: Client, **contents: bytes) -> None:
    for url, content in zip(promise(client, *contents), contents.values(), strict=True):
        assert requests.put(url, data=content, timeout=5).status_code == 200


def listed(client: Client, **asked: object) -> list[str]:
    files = client.ask(LIST, **asked)["project"]["run"]["files"]
    return [edge["node"]["name"] for edge in files["edges"]]


def test_files_round_trip_with_and_without_a_key(client: Client) -> None:
    content = b"\x00\x01bytes" * 1000
    url, _ = promise(client, "media/a b#c%.png", "never.txt")
    assert client.key not in url
    assert requests.put(url, data=content, timeout=5).status_code == 200
    run = client.ask(LIST)["project"]["run"]
    assert run["fileCount"] == 1
    (file,) = (edge["node"] for edge in run["files"]["edges"])
    assert (file["name"], file["sizeBytes"]) == ("media/a b#c%.png", len(content))
    assert file["md5"] == base64.b64encode(hashlib.md5(content).digest()).decode()
    assert client.key not in file["directUrl"]
    assert requests.get(file["directUrl"], timeout=5).content == content
    assert requests.get(file["url"], timeout=5).status_code == 401
    reply = requests.get(file["url"], auth=("api", client.key), timeout=5)
    assert reply.content == content
    part = requests.get(file["directUrl"], headers={"Range": "bytes=2-6"}, timeout=5)
    assert (part.status_code, part.content) == (206, b"bytes")
    client.ask(DELETE, files=[file["id"]])
    assert listed(client) == []
    for address in (file["directUrl"], file["url"]):
        assert requests.get(address, auth=("api", client.key), timeout=5).status_code == 404


def test_what_a_user_stored_is_saved_and_never_shown(client: Client) -> None:
    send(client, **{"page.html": b"<script>steal()</script>"})
    node = client.ask(LIST)["project"]["run"]["files"]["edges"][0]["node"]
    headers = requests.get(node["directUrl"], timeout=5).headers
    assert headers["Content-Disposition"].startswith("attachment")
    assert headers["Content-Security-Policy"].startswith("sandbox")
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_files_are_listed_in_pages_by_name_and_by_pattern(client: Client) -> None:
    send(client, **dict.fromkeys(("b.json", "a_1.txt", "ab1.txt", "c[1].txt", "d.json"), b"x"))
    seen, cursor = [], None
    while True:
        page = client.ask(LIST, first=2, after=cursor)["project"]["run"]["files"]
        seen += [edge["node"]["name"] for edge in page["edges"]]
        cursor = page["edges"][-1]["cursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break
    assert seen == ["a_1.txt", "ab1.txt", "b.json", "c[1].txt", "d.json"]
    assert listed(client, pattern="%.json") == ["b.json", "d.json"]
    assert listed(client, pattern="a_1.txt") == ["a_1.txt", "ab1.txt"]
    assert listed(client, pattern="c[1]%") == ["c[1].txt"]
    assert listed(client, names=["d.json"]) == ["d.json"]


def test_a_file_that_is_sent_again_has_the_newer_bytes(client: Client) -> None:
    for content in (b"first", b"the second"):
        send(client, **{"late.txt": content})
    node = client.ask(LIST)["project"]["run"]["files"]["edges"][0]["node"]
    assert (node["sizeBytes"], requests.get(node["directUrl"], timeout=5).content) == (
        10,
        b"the second",
    )


def test_names_that_lead_out_of_a_folder_are_refused(client: Client) -> None:
    for bad in ("../../escape", "/etc/passwd", "a/../../b", "a\\b", "", "x" * 1025):
        with pytest.raises(AssertionError, match="invalid file name"):
            promise(client, "good", bad)
    assert listed(client) == []


def test_a_name_that_no_file_can_be_saved_as_costs_the_other_files_nothing(client: Client) -> None:
    odd = (" ", ".", "a/", "a/.", "a/ ", "a\nb", "a\0b")
    for bad in odd:
        with pytest.raises(AssertionError, match="invalid file name"):
            promise(client, bad)
    made = promise(client, *odd, "good.txt")
    assert made[:-1] == [None] * len(odd)
    assert requests.put(made[-1], data=b"x", timeout=5).status_code == 200
    assert listed(client) == ["good.txt"]


def test_a_file_that_is_not_there_is_found_and_not_downloaded(client: Client) -> None:
    """As on W&B: the SDK takes the first file, and its `restore` looks for this digest."""
    send(client, **{"here.txt": b"x"})
    found = client.ask(LIST, names=["here.txt", "gone/x.txt"])["project"]["run"]["files"]
    gone, here = (edge["node"] for edge in found["edges"])
    assert (gone["name"], gone["md5"], gone["sizeBytes"]) == ("gone/x.txt", "0", 0)
    assert here["md5"] == base64.b64encode(hashlib.md5(b"x").digest()).decode()
    missing = requests.get(gone["url"], auth=("api", client.key), timeout=5)
    assert (missing.status_code, "file gone/x.txt not found" in missing.text) == (404, True)
    assert requests.get(gone["directUrl"], timeout=5).status_code == 404
    assert "file not found" in client.post(DELETE, files=[gone["id"]]).text
    assert listed(client) == ["here.txt"]


def test_an_address_is_good_for_one_thing_until_a_time(
    backend: ServedBackend, client: Client
) -> None:
    send(client, **{"a.txt": b"a"})
    url = promise(client, "a.txt")[0]
    forged = url[:-1] + ("0" if url[-1] != "0" else "1")
    moved = url.replace("/upload/files/", "/upload/artifacts/")
    refused = [requests.put(address, data=b"b", timeout=5) for address in (forged, moved)]
    assert [reply.status_code for reply in refused] == [403, 403]
    assert "not signed by this server" in refused[0].text
    download = url.replace("/upload/", "/download/")
    assert requests.get(download, timeout=5).status_code == 403
    number = int(urlsplit(url).path.split("/")[3])
    old = load_signer(backend.data).path("upload", number, time.time() - SECONDS["upload"] - 1)
    late = requests.put(backend.url + old, data=b"b", timeout=5)
    assert (late.status_code, "has expired" in late.text) == (403, True)


def test_a_signature_says_nothing_of_its_key() -> None:
    signer = Signer(secrets.token_bytes(32))
    path = signer.path("download", 7, 1000.0, "a b.txt")
    _, action, table, row, expires, signature, name = path.split("/")
    assert (action, table, row, expires, name) == ("download", "files", "7", "4600", "a%20b.txt")
    assert signer.key.hex()[:16] not in path
    signer.check("download", "files/7", 4600, signature, 4600.0)
    old = signer._signature("download", "artifact_files/7", 4600)
    with pytest.raises(Refusal, match="not signed"):
        signer.check("download", "artifact_files/7", 4600, old, 4600.0)
    for wrong in (Signer(secrets.token_bytes(32)), signer):
        with pytest.raises(Refusal, match="not signed" if wrong is not signer else "expired"):
            wrong.check("download", "files/7", 4600, signature, 4601.0)


def begin_upload(url: str, size: int) -> socket.socket:
    """Open a connection and send the head of an upload."""
    place = urlsplit(url)
    assert place.hostname is not None
    connection = socket.create_connection((place.hostname, place.port or 80), timeout=10)
    head = f"PUT {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {size}\r\n\r\n"
    connection.sendall(head.encode())
    return connection


def test_a_full_disk_is_told_before_a_byte_is_sent(client: Client) -> None:
    with begin_upload(promise(client, "huge")[0], 10**18) as connection:
        reply = HTTPResponse(connection)
        reply.begin()
        assert (reply.status, b"do not fit" in reply.read()) == (507, True)
    assert listed(client) == []


def test_half_an_upload_leaves_nothing(backend: ServedBackend, client: Client) -> None:
    url = promise(client, "half")[0]
    incoming = backend.data / "incoming"
    with begin_upload(url, 1000) as connection:
        connection.sendall(b"x" * 10)
        wait_until_files(incoming, 1)
    wait_until_files(incoming, 0)
    assert listed(client) == []
    assert requests.put(url, data=b"whole", timeout=5).status_code == 200
    assert listed(client) == ["half"]


@pytest.mark.slow
def test_a_disk_that_fills_and_a_server_that_is_killed_half_way(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = tmp_path_factory.mktemp("files") / "data"
    served = serve_backend(data)
    client = Client.of(served, "files")
    client.init_run("r")
    url = promise(client, "big")[0]
    limit = resource.RLIMIT_FSIZE  # a write that goes beyond fails, as on a full disk
    resource.prlimit(served.process.pid, limit, (3_000_000, resource.RLIM_INFINITY))
    refused = requests.put(url, data=b"x" * 4_000_000, timeout=20)
    assert (refused.status_code, "storage is unavailable" in refused.text) == (503, True)
    assert (os.listdir(data / "incoming"), listed(client)) == ([], [])
    with begin_upload(url, 1000) as connection:
        connection.sendall(b"x" * 10)
        wait_until_files(data / "incoming", 1)
        served.kill()
    again = serve_backend(data)
    try:
        assert os.listdir(data / "incoming") == []
        assert requests.put(url, data=b"x" * 4_000_000, timeout=20).status_code == 200
        (node,) = client.run("r")["files"]["edges"]
        client.ask(DELETE, files=[node["node"]["id"]])
        wait_until_files(data / "files", 0)
    finally:
        again.end()


@pytest.mark.slow
def test_a_slow_disk_delays_uploads_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, slow = tmp_path / "slow_disk.so", tmp_path / "slow"
    source = Path(__file__).with_name("slow_disk.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("SLOW_DISK", str(slow))
    served = serve_backend(tmp_path / "data", afresh=True)
    monkeypatch.delenv("LD_PRELOAD")
    try:
        client = Client.of(served, "files")
        client.init_run("r")
        urls = promise(client, *(f"{number}.bin" for number in range(12)))
        content = b"x" * 100_000
        slow.touch()
        with ThreadPoolExecutor(len(urls)) as threads:
            sent = [threads.submit(requests.put, url, data=content, timeout=60) for url in urls]
            while not (tmp_path / "slow.waiting").exists():
                time.sleep(0.01)
            try:
                assert requests.get(f"{served.url}/healthz", timeout=10).text == "ok"
                client.log("r", [{"_step": 0}])
            finally:
                slow.unlink()
            assert {one.result().status_code for one in sent} == {200}
    finally:
        served.kill()


def wait_until_files(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 20
    while len(os.listdir(folder)) != count:
        assert time.monotonic() < deadline, os.listdir(folder)
        time.sleep(0.01)


def test_bytes_are_kept_once_and_as_long_as_a_file_has_them(bench: Bench) -> None:
    backend, folder = bench.backend, bench.backend.blobs
    with backend.store.transaction() as db:
        project = ensure_project(db, bench.me, None, "p", 0)
        run = create_run(db, bench.me, project, "r", 0)
        files = [promise_file(db, run.id, name) for name in ("a", "b")]
        for file in files:
            blob = keep(db, folder, bench.me.user.id, folder.write(b"same"), 0)
            set_content(db, file, blob, 0)
    assert os.listdir(folder.content) == [str(blob.id)]
    for file in files:
        delete_unreferenced(backend.store, folder)
        assert folder.path(blob.id).read_bytes() == b"same"
        with backend.store.transaction() as db:
            delete(db, file)
    delete_unreferenced(backend.store, folder)
    assert os.listdir(folder.content) == []
    with backend.store.transaction() as db:
        again = keep(db, folder, bench.me.user.id, folder.write(b"same"), 0)
    assert again.id > blob.id


def test_what_a_killed_server_left_is_cleared(bench: Bench) -> None:
    backend, folder = bench.backend, bench.backend.blobs
    with backend.store.transaction() as db:
        project = ensure_project(db, bench.me, None, "p", 0)
        file = promise_file(db, create_run(db, bench.me, project, "r", 0).id, "a")
        blob = keep(db, folder, bench.me.user.id, folder.write(b"kept"), 0)
        set_content(db, file, blob, 0)
    folder.write(b"half")
    folder.path(999).write_bytes(b"without a row")
    folder.clear_leftovers(backend.store)
    assert os.listdir(folder.incoming) == []
    with backend.store.transaction() as db:
        assert get(db, File, file.id).blob_id == blob.id
    assert folder.path(blob.id).read_bytes() == b"kept"
    assert not folder.path(999).exists()


def test_a_reserve_stays_free_for_the_database(bench: Bench) -> None:
    with pytest.raises(NoSpace, match="do not fit"):
        bench.backend.blobs.check_space(2**62)
    bench.backend.blobs.check_space(1)


def test_a_file_is_found_by_any_spelling_of_its_path(client: Client) -> None:
    send(client, **{"x.txt": b"x"})
    named = (
        "query F($project: String!, $names: [String!]) { project(name: $project) {"
        ' run(name: "r") { files(names: $names) { edges { node { name } } } } } }'
    )
    found = client.ask(named, names=["./x.txt"])["project"]["run"]["files"]["edges"]
    assert found == [{"node": {"name": "x.txt"}}]
