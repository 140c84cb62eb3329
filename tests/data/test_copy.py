"""A copy is right, goes on after a kill, and shows nothing half done."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.data.copy import Silence, copy, describe_copied
from deployer.data.folder_store import FolderStore
from deployer.data.store import PARTIAL_FOLDER
from deployer.errors import DataError
from tests.data.stores import TREE, make_tree, read_tree


class Count(Silence):
    """Sum up what is told."""

    def __init__(self) -> None:
        self.total = self.done = 0

    def start(self, files: int, size_bytes: int) -> None:
        self.total = size_bytes if files else 0

    def advance(self, size_bytes: int) -> None:
        self.done += size_bytes


class Breaking(FolderStore):
    """A folder whose connection breaks after each `piece` bytes that it sends."""

    piece = 1_500_000

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        sent = 0
        if self.piece == 0:
            raise DataError("the connection broke", passing=True)
        for chunk in super().read(path, offset):
            yield chunk
            sent += len(chunk)
            if sent >= self.piece:
                raise DataError("the connection broke", passing=True)


class Lying(FolderStore):
    """A folder that sends other bytes than it has."""

    parallel = 1

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        return (bytes(len(chunk)) for chunk in super().read(path, offset))


def test_a_tree_arrives_whole_and_a_second_copy_finds_it_equal(tmp_path: Path) -> None:
    content = make_tree(tmp_path / "from")
    source, target = FolderStore(tmp_path / "from"), FolderStore(tmp_path / "to")
    count = Count()
    copied = copy(source, target, count)
    assert read_tree(target) == content
    assert (count.done, count.total) == (sum(TREE.values()), sum(TREE.values()))
    assert (copied.files, copied.equal_files, copied.resumed_bytes) == (len(TREE), 0, 0)
    sums = {path: hashlib.sha256(held).hexdigest() for path, held in content.items()}
    assert {entry.path: entry.sha256 for entry in copied.entries} == sums
    again = copy(source, target, count)
    assert again.equal_files == len(TREE)
    assert describe_copied(again) == "4 files, 5.3 MB, 4 already there"
    assert not target.is_unfinished()
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["labels.csv", "train"]


def test_a_file_that_differs_is_replaced_also_if_it_is_as_long(tmp_path: Path) -> None:
    make_tree(tmp_path / "to", {"a": 10, "other": 3}, seed=2)
    content = make_tree(tmp_path / "from", {"a": 10})
    copy(FolderStore(tmp_path / "from"), FolderStore(tmp_path / "to"))
    assert (tmp_path / "to/a").read_bytes() == content["a"]
    assert (tmp_path / "to/other").exists()  # a copy deletes nothing


def test_other_content_is_replaced_only_if_that_is_said(tmp_path: Path) -> None:
    theirs = make_tree(tmp_path / "to", dict.fromkeys("abcdef", 10), seed=2)
    content = make_tree(tmp_path / "from", {**dict.fromkeys("abcde", 10), "e": 11, "new": 5})
    (tmp_path / "to/a").write_bytes(content["a"])
    source, target = FolderStore(tmp_path / "from"), FolderStore(tmp_path / "to")
    with pytest.raises(DataError) as raised:
        copy(source, target, overwrite=False)
    assert raised.value.message == f"{target} already has 4 files with other content: b, c, d, …"
    assert raised.value.hint.startswith("--overwrite ")
    assert read_tree(target) == {**theirs, "a": content["a"]}
    assert not target.is_unfinished()
    copied = copy(source, target)
    assert (copied.equal_files, copied.replaced_files) == (1, 4)
    assert describe_copied(copied).endswith(", 1 already there, 4 replaced")
    assert read_tree(target) == {**content, "f": theirs["f"]}


def test_a_copy_that_goes_on_overwrites_nothing(tmp_path: Path) -> None:
    content = make_tree(tmp_path / "from", {"a": 10, "b": 3_000_000})
    target = FolderStore(tmp_path / "to")
    with pytest.raises(DataError, match="given up"):
        copy(Breaking(tmp_path / "from"), target, sleep=_give_up)
    assert target.is_unfinished()
    copied = copy(FolderStore(tmp_path / "from"), target, overwrite=False)
    assert copied.resumed_bytes >= Breaking.piece
    assert copied.replaced_files == 0
    assert read_tree(target) == content


@pytest.mark.slow
def test_a_copy_that_is_killed_ten_times_goes_on_and_is_right(tmp_path: Path) -> None:
    content = make_tree(tmp_path / "from", {"train/big.bin": 24_000_000, "small": 10})
    source, target = FolderStore(tmp_path / "from"), FolderStore(tmp_path / "to")
    for kill in range(1, 11):
        # Bytes that are there count as done, so each time it dies a bit later.
        command = [sys.executable, "-m", "tests.data.killed_copy", tmp_path / "from"]
        ended = subprocess.run([*command, tmp_path / "to", str(kill * 2_200_000)], check=False)
        assert ended.returncode == -signal.SIGKILL
        assert target.is_unfinished()
        assert "train/big.bin" not in {entry.path for entry in target.list_entries()}
    copied = copy(source, target)
    assert copied.resumed_bytes >= 20_000_000
    assert read_tree(target) == content
    assert not target.is_unfinished()


def test_a_connection_that_breaks_is_gone_on_with(tmp_path: Path) -> None:
    content = make_tree(tmp_path / "from")
    waits: list[float] = []
    target = FolderStore(tmp_path / "to")
    copied = copy(Breaking(tmp_path / "from"), target, sleep=waits.append)
    assert read_tree(target) == content
    assert copied.resumed_bytes >= Breaking.piece
    assert waits == [1.0, 1.0]


def test_one_that_breaks_again_and_again_without_a_byte_is_an_error(tmp_path: Path) -> None:
    content = make_tree(tmp_path / "from", {"a": 20_000_000})
    waits: list[float] = []
    copy(Breaking(tmp_path / "from"), FolderStore(tmp_path / "whole"), sleep=waits.append)
    assert read_tree(FolderStore(tmp_path / "whole")) == content
    assert len(waits) >= 9
    waits.clear()
    dead = Breaking(tmp_path / "from")
    dead.piece = 0
    with pytest.raises(DataError, match="the connection broke"):
        copy(dead, FolderStore(tmp_path / "to"), sleep=waits.append)
    assert waits == [1.0, 2.0, 4.0, 8.0]
    assert FolderStore(tmp_path / "to").is_unfinished()


def test_wrong_bytes_never_get_the_final_name(tmp_path: Path) -> None:
    make_tree(tmp_path / "from", {"a": 10})
    target, count = FolderStore(tmp_path / "to"), Count()
    with pytest.raises(DataError) as raised:
        copy(Lying(tmp_path / "from"), target, count)
    assert raised.value.message == (f"{tmp_path / 'from'}: a has changed since the copy began")
    assert (target.list_entries(), count.done) == ([], 0)


def test_partial_bytes_that_are_wrong_are_sent_again(tmp_path: Path) -> None:
    content = make_tree(tmp_path / "from", {"a": 3_000_000})
    source, target = FolderStore(tmp_path / "from"), FolderStore(tmp_path / "to")
    with pytest.raises(DataError):
        copy(Breaking(tmp_path / "from"), target, sleep=_give_up)
    [partial] = (tmp_path / "to" / PARTIAL_FOLDER).iterdir()
    partial.write_bytes(bytes(1_000_000))
    copied = copy(source, target)
    assert (copied.resumed_bytes, read_tree(target)) == (0, content)


def test_a_source_that_has_changed_meanwhile_is_not_mixed_with_what_it_was(tmp_path: Path) -> None:
    make_tree(tmp_path / "from", {"a": 3_000_000})
    target = FolderStore(tmp_path / "to")
    with pytest.raises(DataError):
        copy(Breaking(tmp_path / "from"), target, sleep=_give_up)
    content = make_tree(tmp_path / "from", {"a": 3_000_000}, seed=2)
    copied = copy(FolderStore(tmp_path / "from"), target)
    assert (copied.resumed_bytes, read_tree(target)) == (0, content)


def test_a_second_copy_to_the_same_folder_is_refused(tmp_path: Path) -> None:
    make_tree(tmp_path / "from", {"a": 10})
    target = FolderStore(tmp_path / "to")
    with target.copying(), pytest.raises(DataError) as raised:
        copy(FolderStore(tmp_path / "from"), FolderStore(tmp_path / "to"))
    assert raised.value.message == f"{tmp_path / 'to'}: another copy to it is in progress"


def _give_up(_seconds: float) -> None:
    raise DataError("given up")


def test_the_names_that_a_file_system_has_arrive(tmp_path: Path) -> None:
    names = ["é ü 名.txt", "a\nb", "-rf", ".hidden", "x" * 255, "deep/" * 30 + "file", "a'\"$(b)"]
    content = make_tree(tmp_path / "from", dict.fromkeys(names, 5))
    copy(FolderStore(tmp_path / "from"), FolderStore(tmp_path / "to"))
    assert read_tree(FolderStore(tmp_path / "to")) == content
    os.mkfifo(tmp_path / "from/pipe")
    with pytest.raises(DataError, match="pipe is not a regular file"):
        copy(FolderStore(tmp_path / "from"), FolderStore(tmp_path / "to"))


def test_links_inside_are_copied_and_folders_behind_links_never_written(tmp_path: Path) -> None:
    make_tree(tmp_path, {"elsewhere/blob": 5, "from/a": 5, "from/out/b": 3})
    (tmp_path / "from/link").symlink_to(tmp_path / "from/out/b")
    (tmp_path / "from/inner").symlink_to("out")
    target = FolderStore(tmp_path / "to")
    (tmp_path / "to").mkdir()
    (tmp_path / "to/out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError):
        copy(FolderStore(tmp_path / "from"), target)
    assert not (tmp_path / "elsewhere/b").exists()
    (tmp_path / "to/out").unlink()
    copy(FolderStore(tmp_path / "from"), target)
    assert not (tmp_path / "to/link").is_symlink()
    assert {entry.path for entry in target.list_entries()} == {"a", "inner/b", "link", "out/b"}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("elsewhere", "is a link that leads out of"),
        ("elsewhere/secret", "is a link that leads out of"),
        ("from/none", "which does not exist"),
        ("from", "a folder that contains it"),
    ],
)
def test_links_that_cannot_be_copied(tmp_path: Path, target: str, said: str) -> None:
    make_tree(tmp_path, {"elsewhere/secret": 5, "from/a": 5})
    (tmp_path / "from/link").symlink_to(tmp_path / target)
    with pytest.raises(DataError) as raised:
        copy(FolderStore(tmp_path / "from"), FolderStore(tmp_path / "to"))
    assert raised.value.message.startswith(f"{tmp_path / 'from/link'} is a link ")
    assert said in raised.value.message
    assert raised.value.hint
    assert not (tmp_path / "to").exists()
    assert FolderStore(tmp_path / "from").delete_all()
    assert (tmp_path / "elsewhere/secret").exists()
    assert not FolderStore(tmp_path / "from").delete_all()


def test_deleting_all_leaves_nothing_of_a_copy(tmp_path: Path) -> None:
    make_tree(tmp_path / "from")
    target = FolderStore(tmp_path / "to")
    copy(FolderStore(tmp_path / "from"), target)
    target.delete("train/a.bin")
    target.delete("train/a.bin")
    assert len(target.list_entries()) == 3
    target.delete_all()
    assert not (tmp_path / "to").exists()
    make_tree(tmp_path / "real", {"a": 1})
    (tmp_path / "to").symlink_to(tmp_path / "real")
    target.delete_all()
    assert list((tmp_path / "to").iterdir()) == []
