"""A volume behind its loader is a store as any other, and nobody gets out of it."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import deployer.loader
from deployer.data.copy import Silence, copy
from deployer.data.folder_store import FolderStore
from deployer.data.sources import preload
from deployer.data.store import PARTIAL_FOLDER, Entry
from deployer.errors import DataError
from deployer.executors.kubernetes.data.loader_client import LoaderClient, LoaderRefusal
from deployer.executors.kubernetes.data.volumes import VolumeStore
from deployer.loader import tree
from tests.data.stores import TREE, make_tree, read_tree
from tests.loader.loader import TOKEN, find_port, open_volume, serve_folder

SOURCES = sorted(Path(deployer.loader.__file__).parent.rglob("*.py"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    return folder


@pytest.fixture
def volume(root: Path) -> Iterator[VolumeStore]:
    with open_volume(root) as store:
        yield store


def test_every_file_is_python_3_8_and_imports_the_standard_library_alone() -> None:
    assert SOURCES
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(), feature_version=(3, 8))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names, source


def test_a_tree_goes_there_and_back(volume: VolumeStore, root: Path, tmp_path: Path) -> None:
    content = make_tree(tmp_path / "from")
    copied = copy(FolderStore(tmp_path / "from"), volume)
    assert (copied.files, copied.equal_files) == (len(TREE), 0)
    assert not volume.is_unfinished()
    assert read_tree(FolderStore(root)) == read_tree(volume) == content
    assert copy(FolderStore(tmp_path / "from"), volume).equal_files == len(TREE)
    copy(volume, FolderStore(tmp_path / "back"))
    assert read_tree(FolderStore(tmp_path / "back")) == content
    volume.delete_all()
    assert list(root.iterdir()) == []


def test_a_volume_and_a_folder_keep_the_same_partial_files(
    volume: VolumeStore, root: Path, tmp_path: Path
) -> None:
    content = make_tree(tmp_path / "from", {"big": 3_000_000})["big"]
    entry = Entry("big", len(content), hashlib.sha256(content).hexdigest())
    assert tree.PARTIAL_FOLDER == PARTIAL_FOLDER
    volume.write(entry, [content[:1_000_000]])
    assert volume.is_unfinished()
    assert FolderStore(root).partial_size(entry) == volume.partial_size(entry) == 1_000_000
    copied = copy(FolderStore(tmp_path / "from"), volume)
    assert copied.resumed_bytes == 1_000_000
    assert (root / "big").read_bytes() == content


def test_what_is_brought_to_a_volume_is_brought_once(
    volume: VolumeStore, root: Path, tmp_path: Path
) -> None:
    make_tree(tmp_path / "from", {"a": 10, "b": 0})
    origin = FolderStore(tmp_path / "from")
    found = origin.list_entries()
    assert preload(origin, found, volume, "", Silence()) is not None
    assert preload(origin, found, volume, "", Silence()) is None
    assert [entry.path for entry in volume.list_entries()] == ["a", "b"]
    volume.delete_all()
    assert list(root.iterdir()) == []


def test_what_is_not_what_was_said_gets_no_name(volume: VolumeStore, root: Path) -> None:
    entry = Entry("file", 3, hashlib.sha256(b"one").hexdigest())
    volume.write(entry, [b"two"])
    assert not volume.finish(entry)
    assert volume.partial_size(entry) == 0
    assert volume.list_entries() == []
    with pytest.raises(LoaderRefusal) as refusal:
        volume.write(entry, [b"e"], offset=2)
    assert refusal.value.reason == "gap"
    assert not (root / "file").exists()


@pytest.mark.parametrize(
    "path", ["../secret", "/etc/passwd", "a/../../secret", "link/secret", "a//b", "", "nul\0"]
)
def test_nothing_outside_is_read_written_or_deleted(
    volume: VolumeStore, root: Path, path: str
) -> None:
    (root.parent / "secret").write_text("mine")
    (root / "link").symlink_to(root.parent)
    entry = Entry(path, 4, hashlib.sha256(b"ours").hexdigest())
    volume.write(entry, [b"ours"])
    for act in (
        lambda: volume.finish(entry),
        lambda: list(volume.read(path)),
        lambda: volume.delete(path),
        lambda: volume.checksum(path),
    ):
        with pytest.raises(LoaderRefusal) as refusal:
            act()
        assert refusal.value.reason == "bad-path"
    assert (root.parent / "secret").read_text() == "mine"


def test_a_link_to_a_file_outside_is_not_followed(volume: VolumeStore, root: Path) -> None:
    (root.parent / "secret").write_text("mine")
    (root / "link").symlink_to(root.parent / "secret")
    assert volume.list_entries() == []
    with pytest.raises(LoaderRefusal, match="a link leads out of the volume"):
        list(volume.read("link"))


def test_without_the_token_nothing_is_told(root: Path) -> None:
    (root / "file").write_text("content")
    with serve_folder(root) as url:
        LoaderClient(url, TOKEN, "claim test").wait_until_up()
        with pytest.raises(LoaderRefusal) as refusal:
            LoaderClient(url, "another", "claim test").list_entries()
        assert refusal.value.reason == "token"


def test_what_the_volume_refuses_is_said(root: Path, tmp_path: Path) -> None:
    make_tree(tmp_path / "from", {"folder": 4})
    (root / "folder/inside").mkdir(parents=True)
    with open_volume(root) as volume, pytest.raises(DataError, match="Is a directory") as raised:
        copy(FolderStore(tmp_path / "from"), volume)
    assert raised.value.hint.startswith("a file and a folder have the same name")


def test_a_second_copy_at_the_same_time_is_refused(volume: VolumeStore, root: Path) -> None:
    with (
        volume.copying(),
        pytest.raises(DataError, match="another copy to it is in progress"),
        FolderStore(root).copying(),
    ):
        raise AssertionError("two at a time")


class Unsteady:
    """A port that leads to another and cuts each connection after so many bytes."""

    def __init__(self, port: int, cut_after: int) -> None:
        self._port, self._cut_after = port, cut_after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def open_volume(self) -> VolumeStore:
        """Return the volume behind this port, for which no lost connection is one too many."""
        client = LoaderClient(
            self.url,
            TOKEN,
            "claim test",
            sleep=lambda _: time.sleep(0.01),
            patience_seconds=math.inf,
        )
        return VolumeStore(client, "claim test", client.close)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._port))
            left = [self._cut_after]
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._carry, args=(*ends, left), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, left: list[int]) -> None:
        try:
            while block := source.recv(1 << 14):
                left[0] -= len(block)
                if left[0] < 0:
                    self.cuts += 1
                    break
                target.sendall(block)
        except OSError:
            pass
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def test_lost_connections_cost_time_and_no_byte(root: Path, tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "from").mkdir()
    (tmp_path / "from/big").write_bytes(content)
    port = find_port()
    with serve_folder(root, port) as url:
        LoaderClient(url, TOKEN, "claim test").wait_until_up()
        line = Unsteady(port, cut_after=500_000)
        volume = line.open_volume()
        copy(FolderStore(tmp_path / "from"), volume)
        assert (root / "big").read_bytes() == content
        copy(volume, FolderStore(tmp_path / "back"))
        assert (tmp_path / "back/big").read_bytes() == content
        assert line.cuts >= 10


class Counting(LoaderClient):
    """Counts requests."""

    requests = 0

    def _open(self, *words: Any, **more: Any) -> Any:
        self.requests += 1
        return super()._open(*words, **more)


def test_many_small_files_take_few_requests(root: Path, tmp_path: Path) -> None:
    sizes = {f"{number % 7}/{number}": number % 3 * 900 for number in range(600)}
    content = make_tree(tmp_path / "from", {**sizes, "large": 600_000})
    make_tree(root, {"1/1": 900}, seed=2)
    with serve_folder(root) as url:
        client = Counting(url, TOKEN, "claim test")
        client.wait_until_up()
        volume = VolumeStore(client, "claim test", client.close)
        assert copy(FolderStore(tmp_path / "from"), volume).replaced_files == 1
        assert read_tree(FolderStore(root)) == content
        assert copy(FolderStore(tmp_path / "from"), volume).equal_files == 601
        copy(volume, FolderStore(tmp_path / "back"))
        assert read_tree(FolderStore(tmp_path / "back")) == content
        assert client.requests < 40
    assert not (root / PARTIAL_FOLDER).exists()


def test_small_files_cross_a_line_that_is_cut(root: Path, tmp_path: Path) -> None:
    content = make_tree(tmp_path / "from", {str(number): 1000 for number in range(700)})
    port = find_port()
    with serve_folder(root, port) as url:
        LoaderClient(url, TOKEN, "claim test").wait_until_up()
        line = Unsteady(port, cut_after=600_000)
        volume = line.open_volume()
        volume.parallel = 1
        copy(FolderStore(tmp_path / "from"), volume)
        copy(volume, FolderStore(tmp_path / "back"))
        assert line.cuts >= 1
    assert read_tree(FolderStore(tmp_path / "back")) == content


def test_of_many_files_only_the_right_ones_get_a_name(volume: VolumeStore, root: Path) -> None:
    right, wrong = (Entry(name, 3, hashlib.sha256(b"one").hexdigest()) for name in "ab")
    short, unknown = replace(right, path="c"), Entry("d", 3)
    files = [(right, b"one"), (wrong, b"two"), (short, b"on"), (unknown, b"any")]
    assert volume.write_many(files) == {"a", "d"}
    assert {entry.path for entry in volume.list_entries()} == {"a", "d"}
    assert volume.list_checksums(["a", "b"]) == {"a": right.sha256, "b": None}
    with pytest.raises(LoaderRefusal) as refusal:
        volume.write_many([(replace(unknown, path="../d"), b"any")])
    assert refusal.value.reason == "bad-path"
    assert not (root.parent / "d").exists()


def test_a_loader_that_is_gone_is_named() -> None:
    client = LoaderClient(
        f"http://127.0.0.1:{find_port()}", TOKEN, "claim test", lambda _: None, patience_seconds=0
    )
    with pytest.raises(DataError, match="claim test: the data loader does not answer"):
        client.wait_until_up()
