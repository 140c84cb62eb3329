"""Copies to and from an emulator of Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.data.addresses import open_address
from deployer.data.copy import copy
from deployer.data.folder_store import FolderStore
from deployer.data.gcs_store import PIECE_BYTES
from deployer.errors import DataError
from tests.data.object_servers import BUCKET, serve_gcs
from tests.data.stores import make_tree, read_tree
from tests.data.test_copy import Lying

pytestmark = pytest.mark.slow
TREE = {"a": 10, "train/big.bin": 2 * PIECE_BYTES + 5, "train/empty": 0, "é x+&.txt": 5}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serve_gcs() as url:
        yield url


@pytest.fixture(autouse=True)
def no_machine_of_google(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_GCE_CHECK", "true")


def test_a_tree_goes_there_and_comes_back(server: str, tmp_path: Path) -> None:
    content = make_tree(tmp_path / "from", TREE)
    with open_address(f"gs://{BUCKET}/{tmp_path.name}/data", server) as store:
        assert store.list_entries() == []
        copied = copy(FolderStore(tmp_path / "from"), store)
        assert (copied.files, copied.equal_files) == (len(TREE), 0)
        assert not store.is_unfinished()
        assert copy(FolderStore(tmp_path / "from"), store).equal_files == len(TREE)
        copy(store, FolderStore(tmp_path / "to"))
        assert read_tree(FolderStore(tmp_path / "to")) == content
        assert b"".join(store.read("a", 4)) == content["a"][4:]
        store.delete("a")
        store.delete("a")
        assert store.checksum("a") is None
        with store.copying():
            assert store.is_unfinished()
        store.delete_all()
        assert store.list_entries() == []


def test_wrong_bytes_never_appear(server: str, tmp_path: Path) -> None:
    make_tree(tmp_path / "from", {"a": 10, "big": 2 * PIECE_BYTES})
    with open_address(f"gs://{BUCKET}/{tmp_path.name}", server) as store:
        with pytest.raises(DataError, match="is not what it was"):
            copy(Lying(tmp_path / "from"), store)
        assert store.list_entries() == []
        assert store.is_unfinished()


def test_refusals_are_one_line_and_say_what_to_do(server: str) -> None:
    with pytest.raises(DataError) as raised:
        open_address("gs://no-such-bucket/x", server).list_entries()
    assert raised.value.message == f"gs://no-such-bucket/x at {server}: is not there"
    assert raised.value.hint == "correct `url:` in deployer.yaml"
