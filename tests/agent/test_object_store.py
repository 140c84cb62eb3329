"""The supervisor's own client of object stores, and outputs that are kept in one."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.agent.runs.object_store import ObjectFolder, Refused, open_folder
from deployer.agent.runs.sent_outputs import main as send_outputs
from tests.agent.conftest import wait_for
from tests.data.object_servers import BUCKET, ObjectServer, serve_nanio

ODD = "deep er/ü+&=?#.json"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """Serve an object store that checks signatures."""
    with serve_nanio(tmp_path_factory.mktemp("objects")) as found:
        yield found


@pytest.fixture
def environment(server: ObjectServer, tmp_path: Path) -> dict[str, str]:
    """Return what a run has whose outputs go to a folder of its own in the store."""
    (tmp_path / "outputs").mkdir()
    return {
        **server.environment,
        "DEPLOYER_OUTPUT_ENDPOINT": server.url,
        "DEPLOYER_OUTPUT_KEEP": f"s3://{BUCKET}/{uuid.uuid4().hex}",
        "DEPLOYER_OUTPUT_DIR": str(tmp_path / "outputs"),
        "WANDB_SWEEP_ID": "s1",
        "WANDB_RUN_ID": "r1",
        "WANDB_FINISH_TIMEOUT": "0",
    }


def open_store(environment: dict[str, str]) -> ObjectFolder:
    return open_folder(f"{environment['DEPLOYER_OUTPUT_KEEP']}/s1/r1", environment, time.time())


def read(server: ObjectServer, environment: dict[str, str], name: str) -> bytes:
    """Read an object where the server keeps it."""
    prefix = environment["DEPLOYER_OUTPUT_KEEP"].rpartition("/")[2]
    return (server.folder / prefix / "s1" / "r1" / name).read_bytes()


def test_outputs_replace_what_an_earlier_attempt_has_sent(
    server: ObjectServer, environment: dict[str, str]
) -> None:
    folder = Path(environment["DEPLOYER_OUTPUT_DIR"])
    (folder / "deep er").mkdir()
    (folder / ODD).write_text("{}")
    (folder / "best.pt").write_bytes(b"old")
    assert send_outputs(environment, [ODD, "best.pt"]) == 0
    (folder / "best.pt").write_bytes(b"new weights")
    (folder / "empty").touch()
    assert send_outputs(environment, ["best.pt", "empty"]) == 0
    assert sorted(open_store(environment).list_names()) == ["best.pt", "empty"]
    assert read(server, environment, "best.pt") == b"new weights"


def test_a_large_file_is_sent_in_parts(
    server: ObjectServer, environment: dict[str, str], tmp_path: Path
) -> None:
    content = os.urandom(1 << 20) * 12
    (tmp_path / "large").write_bytes(content)
    replace(open_store(environment), part_bytes=5 << 20).put("large", str(tmp_path / "large"))
    held = hashlib.sha256(read(server, environment, "large")).hexdigest()
    assert held == hashlib.sha256(content).hexdigest()


def list_uploads(server: ObjectServer) -> list[Path]:
    """Return the uploads in parts that have not ended, where the server keeps them."""
    return list((server.folder.parent / ".nanio" / "multipart").iterdir())


def test_the_parts_of_a_file_that_cannot_be_sent_are_deleted(
    server: ObjectServer, environment: dict[str, str], tmp_path: Path
) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(4 << 20))

    def shorten() -> None:
        while not list((server.folder.parent / ".nanio" / "multipart").glob("*/parts/*")):
            time.sleep(0.001)
        os.truncate(large, 1)

    shortening = threading.Thread(target=shorten)
    shortening.start()
    with pytest.raises(Refused, match="has become shorter"):
        replace(open_store(environment), part_bytes=4 << 10).put("large", str(large))
    shortening.join()
    assert list_uploads(server) == []


def test_the_parts_that_a_killed_attempt_has_left_are_deleted(
    server: ObjectServer, environment: dict[str, str], tmp_path: Path
) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(64 << 20))
    others = {**environment, "DEPLOYER_OUTPUT_KEEP": f"s3://{BUCKET}/others"}
    for told in (environment, others):
        store = replace(open_store(told), part_bytes=4 << 10)
        before = len(list_uploads(server))
        process = multiprocessing.get_context("fork").Process(
            target=store.put, args=("large", str(large))
        )
        process.start()
        wait_for(lambda known=before: len(list_uploads(server)) > known, "an upload")  # type: ignore[misc]
        process.kill()
        process.join()
    assert send_outputs(environment, []) == 0
    [kept] = list_uploads(server)
    assert "others" in (kept / "init.json").read_text()
    assert send_outputs(others, []) == 0
    assert list_uploads(server) == []


def test_what_the_store_refuses_is_one_line(
    environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    (Path(environment["DEPLOYER_OUTPUT_DIR"]) / "a").touch()
    url = f"{environment['DEPLOYER_OUTPUT_KEEP']}/s1/r1/"
    for change, said in (
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, f"{url}: HTTP 403 SignatureDoesNotMatch: "),
        ({"DEPLOYER_OUTPUT_ENDPOINT": "http://127.0.0.1:9"}, f"{url}: [Errno 111] "),
        ({"AWS_ACCESS_KEY_ID": ""}, f"{url[:-1]}: there are no credentials: "),
    ):
        assert send_outputs({**environment, **change}, ["a"]) == 1
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith(said)


def test_the_keys_of_outputs_count_more_than_those_of_data(environment: dict[str, str]) -> None:
    own = {"DEPLOYER_OUTPUT_KEY_ID": "id", "DEPLOYER_OUTPUT_KEY": "k", "AWS_SESSION_TOKEN": "t"}
    store = open_store({**environment, **own})
    assert (store.key_id, store.key, store.token) == ("id", "k", "")
    with pytest.raises(Refused):
        replace(store, deadline=0.0).list_names()
