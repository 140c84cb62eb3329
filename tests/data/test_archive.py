"""Archives are unpacked whole, and hostile ones are refused before they do any harm."""

from __future__ import annotations

import random
import tarfile
from pathlib import Path

import pytest

from deployer.data.archive import ArchiveLimits, is_archive, unpack
from deployer.data.folder_store import FolderStore
from deployer.errors import DataError
from tests.data.archives import build_special, write_tar, write_zip
from tests.data.stores import read_tree

FILES = {"set/train/a.txt": b"a" * 70_000, "set/b": b"", "./set/c é": b"c"}
UNPACKED = {"set/train/a.txt": b"a" * 70_000, "set/b": b"", "set/c é": b"c"}


def refuse(archive: Path, limits: ArchiveLimits | None = None) -> str:
    """Return why an archive is refused; nothing may have come out of the folder."""
    folder = archive.parent / "out" / "unpacked"
    folder.mkdir(parents=True)
    before = sorted(archive.parent.rglob("*"))
    with pytest.raises(DataError) as raised:
        unpack(archive, folder, limits)
    after = [path for path in archive.parent.rglob("*") if not path.is_relative_to(folder)]
    assert sorted(after) == [path for path in before if path != folder]
    assert raised.value.message.startswith(f"{archive}: ")
    return raised.value.message.removeprefix(f"{archive}: ")


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("a.tar", "w"),
        ("a.tar.gz", "w:gz"),
        ("a.tgz", "w:gz"),
        ("a.TXZ", "w:xz"),
        ("b.tbz2", "w:bz2"),
    ],
)
def test_every_kind_of_tar(tmp_path: Path, name: str, mode: str) -> None:
    (tmp_path / "to").mkdir()
    unpack(write_tar(tmp_path / name, FILES, mode=mode), tmp_path / "to")
    assert read_tree(FolderStore(tmp_path / "to")) == UNPACKED


def test_a_zip_also_with_folders_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    archive = write_zip(tmp_path / "a.zip", {"empty/": b"", **FILES}, {"set/link": "c é"})
    unpack(archive, tmp_path / "to")
    assert read_tree(FolderStore(tmp_path / "to")) == {**UNPACKED, "set/link": b"c"}


def test_links_within_an_archive_become_files(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    links = (
        build_special("set/later", tarfile.SYMTYPE, "link"),
        build_special("set/link", tarfile.SYMTYPE, "train/../c é"),
        build_special("hard", tarfile.LNKTYPE, "./set/c é"),
        build_special("folder", tarfile.DIRTYPE),
    )
    unpack(write_tar(tmp_path / "a.tar.gz", FILES, *links), tmp_path / "to")
    added = {"set/link": b"c", "set/later": b"c", "hard": b"c"}
    assert read_tree(FolderStore(tmp_path / "to")) == {**UNPACKED, **added}
    assert not (tmp_path / "to/set/link").is_symlink()


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out", "a//b", "x" * 256, ".."])
def test_names_that_lead_out(tmp_path: Path, name: str) -> None:
    assert refuse(write_tar(tmp_path / "a.tar", {name: b"1"}, mode="w")) == (
        f"{name!r} points outside the archive, or is not a file path"
    )
    if name != "..":
        (tmp_path / "zip").mkdir()
        assert "points outside the archive" in refuse(
            write_zip(tmp_path / "zip/a.zip", {name: b"1"})
        )


@pytest.mark.parametrize(
    ("kind", "target", "said"),
    [
        (tarfile.SYMTYPE, "/etc/passwd", "'x' points outside the archive, or is not a file path"),
        (
            tarfile.SYMTYPE,
            "../../etc/passwd",
            "'x' points outside the archive, or is not a file path",
        ),
        (tarfile.LNKTYPE, "../etc/passwd", "'x' points outside the archive, or is not a file path"),
        (tarfile.SYMTYPE, "set", "'x' is a link to 'set', which is not a file in it"),
        (tarfile.SYMTYPE, "x", "'x' is a link to 'x', which is not a file in it"),
        (tarfile.FIFOTYPE, "", "'x' is a device, a pipe or a socket"),
        (tarfile.CHRTYPE, "", "'x' is a device, a pipe or a socket"),
        (tarfile.BLKTYPE, "", "'x' is a device, a pipe or a socket"),
    ],
)
def test_links_that_lead_out_and_special_files(
    tmp_path: Path, kind: bytes, target: str, said: str
) -> None:
    archive = write_tar(tmp_path / "a.tar.gz", FILES, build_special("x", kind, target))
    assert refuse(archive) == said


def test_a_link_is_never_written_through(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w") as opened:
        opened.addfile(build_special("x", tarfile.SYMTYPE, "/tmp"))
        opened.addfile(tarfile.TarInfo("x/written"))
    assert "points outside the archive" in refuse(archive)
    (tmp_path / "zip").mkdir()
    assert "points outside the archive" in refuse(
        write_zip(tmp_path / "zip/a.zip", {}, {"x": "/etc/passwd"})
    )


def test_a_bomb_is_stopped_by_the_bytes_that_come_out(tmp_path: Path) -> None:
    limits = ArchiveLimits(ratio=50, harmless_bytes=1_000_000)
    bomb = write_zip(tmp_path / "a.zip", {"zeros": bytes(20_000_000)})
    said = "its 20 kB unpack to more than 1 MB; the limit is 50 times its size"
    assert refuse(bomb, limits) == f"{said}, 1 MB at least and 2 TB at most"
    assert not (tmp_path / "out/unpacked/zeros").stat().st_size > 2_000_000
    (tmp_path / "tar").mkdir()
    many = write_tar(tmp_path / "tar/a.tar", dict.fromkeys(map(str, range(12)), b""), mode="w")
    assert refuse(many, ArchiveLimits(files=10)) == "it holds more than 10 files"


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tar.xz", "a.tar.bz2"])
def test_zeros_in_every_kind_of_tar_are_a_bomb(tmp_path: Path, name: str) -> None:
    mode = f"w:{name.rpartition('.')[2]}"
    bomb = write_tar(tmp_path / name, {"zeros": bytes(20_000_000)}, mode=mode)
    assert "200 times its size" in refuse(bomb, ArchiveLimits(harmless_bytes=10_000_000))


def test_what_is_allowed_if_nobody_says_more(tmp_path: Path) -> None:
    bomb = write_zip(tmp_path / "a.zip", {"zeros": bytes(101_000_000)})
    assert refuse(bomb) == (
        "its 98 kB unpack to more than 100 MB; "
        "the limit is 200 times its size, 100 MB at least and 2 TB at most"
    )


def test_no_archive_unpacks_to_more_than_a_total(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", {"noise": random.Random(1).randbytes(30_000)})
    said = refuse(archive, ArchiveLimits(most_bytes=10_000))
    assert said.startswith("its 30 kB unpack to more than 10 kB;")


def test_an_archive_in_an_archive_stays_packed(tmp_path: Path) -> None:
    inner = write_zip(tmp_path / "inner.zip", {"zeros": bytes(20_000_000)}).read_bytes()
    (tmp_path / "to").mkdir()
    unpack(write_tar(tmp_path / "a.tar.gz", {"inner.zip": inner}), tmp_path / "to")
    assert read_tree(FolderStore(tmp_path / "to")) == {"inner.zip": inner}


def test_what_compresses_well_but_is_small_is_no_bomb(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    unpack(write_zip(tmp_path / "a.zip", {"zeros": bytes(20_000_000)}), tmp_path / "to")
    assert (tmp_path / "to/zeros").stat().st_size == 20_000_000


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tar.xz", "a.tar.bz2"])
def test_what_is_no_archive_or_only_half_of_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"no archive" * 1000)
    assert refuse(tmp_path / name) == "is damaged, or not an archive"
    half = tmp_path / "half"
    half.mkdir()
    kinds = {"gz": "w:gz", "xz": "w:xz", "bz2": "w:bz2"}
    if name.endswith("zip"):
        write_zip(half / name, FILES)
    else:
        write_tar(half / name, FILES, mode=kinds.get(name.rpartition(".")[2], "w"))
    whole = (half / name).read_bytes()
    (half / name).write_bytes(whole[: len(whole) // 2])
    assert refuse(half / name) == "is damaged, or not an archive"


def test_other_oddities(tmp_path: Path) -> None:
    both = write_tar(tmp_path / "a.tar", {"a": b"1", "a/b": b"2"}, mode="w")
    assert refuse(both) == "a file and a folder in it have the same name"
    (tmp_path / "own").mkdir()
    own = write_tar(tmp_path / "own/a.tar", {".deployer-partial/x": b"1"}, mode="w")
    assert "a name that deployer reserves" in refuse(own)


def test_names_of_archives() -> None:
    assert all(is_archive(name) for name in ("a.zip", "A.TAR.GZ", "x.tgz", "cifar.tar"))
    assert not any(is_archive(name) for name in ("a.gz", "zip", "a.csv", "a.tar.gz.txt"))
