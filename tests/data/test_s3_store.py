"""Copies to and from real S3 servers: resumed, verified, refused in one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.data.copy import copy
from deployer.data.folder_store import FolderStore
from deployer.data.s3_store import LEAST_PART_BYTES, ObjectStore, choose_part_bytes
from deployer.data.store import PARTIAL_FOLDER
from deployer.errors import DataError
from tests.data.object_servers import BUCKET, SECRET, ObjectServer
from tests.data.stores import make_tree, read_tree

pytestmark = pytest.mark.slow
TREE = {"a": 10, "train/big.bin": 2 * LEAST_PART_BYTES + 5, "train/empty": 0, "é x+&?#%.txt": 5}


@pytest.fixture
def store(object_server: ObjectServer, tmp_path: Path) -> Iterator[ObjectStore]:
    """Open a folder of the bucket that no other test uses."""
    with ObjectStore(f"s3://{BUCKET}/{tmp_path.name}/data", object_server.url) as opened:
        yield opened


def test_a_tree_goes_there_and_comes_back(store: ObjectStore, tmp_path: Path) -> None:
    content = make_tree(tmp_path / "from", TREE)
    copied = copy(FolderStore(tmp_path / "from"), store)
    assert (copied.files, copied.equal_files) == (len(TREE), 0)
    assert not store.is_unfinished()
    assert store.checksum("a") == copied.entries[0].sha256
    assert store.checksum("nothing") is None
    assert copy(FolderStore(tmp_path / "from"), store).equal_files == len(TREE)
    copy(store, FolderStore(tmp_path / "to"))
    assert read_tree(FolderStore(tmp_path / "to")) == content
    assert b"".join(store.read("a", 4)) == content["a"][4:]
    store.delete("a")
    store.delete("a")
    assert [entry.path for entry in store.list_entries()] == sorted(TREE)[1:]
    store.delete_all()
    assert store.list_entries() == []


def test_an_upload_that_is_killed_goes_on_with_the_parts_that_are_there(
    store: ObjectStore, object_server: ObjectServer, tmp_path: Path
) -> None:
    content = make_tree(tmp_path / "from", {"big": 2 * LEAST_PART_BYTES + 7})
    command = [sys.executable, "-m", "tests.data.killed_copy", tmp_path / "from"]
    address = [store.describe(), str(LEAST_PART_BYTES + 10), object_server.url]
    ended = subprocess.run([*command, *address], env=dict(os.environ), check=False)
    assert ended.returncode == -signal.SIGKILL
    assert store.list_entries() == []
    assert store.is_unfinished()
    copied = copy(FolderStore(tmp_path / "from"), store)
    assert copied.resumed_bytes == LEAST_PART_BYTES
    assert read_tree(store) == content
    assert not store.is_unfinished()


@pytest.mark.full
def test_an_upload_of_other_content_is_not_gone_on_with(
    store: ObjectStore, object_server: ObjectServer, tmp_path: Path
) -> None:
    make_tree(tmp_path / "from", {"big": 2 * LEAST_PART_BYTES})
    command = [sys.executable, "-m", "tests.data.killed_copy", tmp_path / "from"]
    address = [store.describe(), str(LEAST_PART_BYTES + 10), object_server.url]
    subprocess.run([*command, *address], env=dict(os.environ), check=False)
    content = make_tree(tmp_path / "from", {"big": 2 * LEAST_PART_BYTES}, seed=2)
    copied = copy(FolderStore(tmp_path / "from"), store)
    assert (copied.resumed_bytes, read_tree(store)) == (0, content)


def test_a_download_that_was_broken_off_goes_on(store: ObjectStore, tmp_path: Path) -> None:
    content = make_tree(tmp_path / "from", {"big": 3 * LEAST_PART_BYTES})
    copy(FolderStore(tmp_path / "from"), store)
    target = FolderStore(tmp_path / "to")
    [entry] = store.list_entries()

    class Dead(Exception):
        pass

    class Die:
        def start(self, files: int, size_bytes: int) -> None: ...

        def advance(self, size_bytes: int) -> None:
            if size_bytes > 0:
                raise Dead

    with pytest.raises(Dead):
        copy(store, target, Die())
    assert target.list_entries() == []
    copied = copy(store, target)
    assert copied.resumed_bytes == LEAST_PART_BYTES
    assert read_tree(target) == content
    assert copied.entries[0].size_bytes == entry.size_bytes


def test_only_what_lies_in_the_folder_belongs_to_it(
    object_server: ObjectServer, tmp_path: Path
) -> None:
    make_tree(tmp_path / "from", {"b": 1})
    for folder in ("set", "set-2", "set/inner"):
        address = f"s3://{BUCKET}/{tmp_path.name}/{folder}"
        copy(FolderStore(tmp_path / "from"), ObjectStore(address, object_server.url))
    found = ObjectStore(f"s3://{BUCKET}/{tmp_path.name}/set", object_server.url).list_entries()
    assert [entry.path for entry in found] == ["b", "inner/b"]


def test_an_object_that_is_replaced_while_it_is_read_is_an_error(
    store: ObjectStore, tmp_path: Path
) -> None:
    make_tree(tmp_path / "from", {"a": 10})
    copy(FolderStore(tmp_path / "from"), store)
    store.list_entries()
    make_tree(tmp_path / "from", {"a": 10}, seed=2)
    copy(FolderStore(tmp_path / "from"), ObjectStore(store.describe(), _endpoint(store)))
    with pytest.raises(DataError) as raised:
        list(store.read("a"))
    assert raised.value.message.endswith("the object changed during the copy")


def test_given_credentials_count_more_than_the_environment(
    object_server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = dict(object_server.environment)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with ObjectStore(f"s3://{BUCKET}/{tmp_path.name}", object_server.url, given) as opened:
        assert opened.list_entries() == []


@pytest.mark.parametrize(
    ("variables", "bucket", "said", "hint"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, BUCKET, "the secret key is wrong", "AWS_SECRET"),
        ({"AWS_ACCESS_KEY_ID": "wrong"}, BUCKET, "the access key is unknown", "AWS_ACCESS"),
        ({"AWS_PROFILE": "none"}, BUCKET, "profile not found", "check AWS_PROFILE"),
        ({}, "no-such-bucket", "bucket not found", "make it, or correct `url:`"),
    ],
)
def test_refusals_are_one_line_and_say_what_to_do(
    object_server: ObjectServer,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    bucket: str,
    said: str,
    hint: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DataError) as raised:
        ObjectStore(f"s3://{bucket}/x", object_server.url).list_entries()
    assert raised.value.message.startswith(f"s3://{bucket}/x at {object_server.url}: {said}")
    assert hint in raised.value.hint
    assert "\n" not in raised.value.message
    assert SECRET not in json.dumps([raised.value.message, raised.value.hint])


def test_without_credentials_and_without_a_server(
    object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="cannot be reached") as raised:
        ObjectStore(f"s3://{BUCKET}", "http://127.0.0.1:9").list_entries()
    assert raised.value.hint == "check `endpoint_url:` or AWS_ENDPOINT_URL, and the network"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(DataError, match="there are no credentials for it"):
        ObjectStore(f"s3://{BUCKET}", object_server.url).list_entries()


def test_the_parts_of_the_largest_objects_are_few_enough() -> None:
    assert choose_part_bytes(5) == choose_part_bytes(10_000 * LEAST_PART_BYTES) == LEAST_PART_BYTES
    assert choose_part_bytes(10_000 * LEAST_PART_BYTES + 1) == 2 * LEAST_PART_BYTES


def _endpoint(store: ObjectStore) -> str:
    return store._client.where.partition(" at ")[2]


def test_the_folder_of_uploads_is_not_part_of_the_data(store: ObjectStore, tmp_path: Path) -> None:
    make_tree(tmp_path / "from", {"a": 1})
    with store.copying():
        assert store.is_unfinished()
        assert store.list_entries() == []
    assert PARTIAL_FOLDER not in str(store.list_entries())
