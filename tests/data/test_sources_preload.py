"""What is brought from elsewhere is brought once, also if that was killed before its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.data.copy import Silence
from deployer.data.folder_store import FolderStore
from deployer.data.sources import NOTED_FILES, preload
from tests.data.archives import write_tar
from tests.data.stores import make_tree, read_tree


class Foreign(FolderStore):
    """A place that knows no checksums, as an object store that others have filled."""

    parallel = 1

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.sent: list[str] = []

    def checksum(self, path: str) -> str | None:
        del path

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        self.sent.append(path)
        return super().read(path, offset)


class Killed(Exception):
    """Stands for the end of the process."""


class Kill(Silence):
    """Ends a copy after so many files of one byte."""

    def __init__(self, after: int) -> None:
        self._left = after

    def advance(self, size_bytes: int) -> None:
        self._left -= size_bytes
        if self._left < 0 < size_bytes:
            raise Killed


def bring(origin: Foreign, place: FolderStore, kill_after: int = 10**6, archive: str = "") -> bool:
    entries = origin.list_entries()
    return preload(origin, entries, place, archive, Kill(kill_after)) is not None


def test_a_preload_that_is_killed_goes_on_behind_the_last_note(tmp_path: Path) -> None:
    content = make_tree(tmp_path / "from", {f"{n:04}": 1 for n in range(NOTED_FILES + 20)})
    origin, place = Foreign(tmp_path / "from"), FolderStore(tmp_path / "to")
    with pytest.raises(Killed):
        bring(origin, place, NOTED_FILES + 5)
    assert place.is_unfinished()
    origin.sent.clear()
    assert bring(origin, place)
    assert len(origin.sent) == 20
    assert read_tree(place) == content
    assert not place.is_unfinished()
    assert not bring(origin, place)


def test_only_what_is_new_is_sent(tmp_path: Path) -> None:
    make_tree(tmp_path / "from", {"a": 1, "b": 1, "c": 1})
    origin, place = Foreign(tmp_path / "from"), FolderStore(tmp_path / "to")
    bring(origin, place)
    origin.sent.clear()
    make_tree(tmp_path / "from", {"b": 2})
    (tmp_path / "from/a").unlink()
    (tmp_path / "to/c").unlink()
    assert bring(origin, place)
    assert origin.sent == ["b", "c"]
    assert sorted(read_tree(place)) == ["b", "c"]


def test_an_archive_that_is_here_is_not_sent_again(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    write_tar(tmp_path / "from/a.tar", {"a": b"1", "b": b"2"}, mode="w")
    origin, place = Foreign(tmp_path / "from"), FolderStore(tmp_path / "to")
    with pytest.raises(Killed):
        bring(origin, place, (tmp_path / "from/a.tar").stat().st_size, "a.tar")
    assert bring(origin, place, archive="a.tar")
    assert origin.sent == ["a.tar"]
    assert read_tree(place) == {"a": b"1", "b": b"2"}
