"""Checks and unpacks an archive: nothing escapes the folder, and its size is limited.

A tar is read once from start to end, a zip by its directory. Bytes are counted while unpacking,
whatever the archive claims. Links become copies of files of the same archive.
"""

from __future__ import annotations

import errno
import lzma
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from deployer.data.store import check_path, is_own
from deployer.errors import DataError
from deployer.text import format_bytes

# Uploaded unchanged, although users may expect it to be unpacked.
NOT_UNPACKED = (".tar.zst", ".tzst", ".tar.lz4", ".tar.lzma", ".tar.br", ".tar.z", ".7z", ".rar")
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
CHUNK_BYTES = 1 << 20
MOST_LINKS_IN_A_ROW = 40  # the kernel's limit
DAMAGED_HINT = "download it again; data put --overwrite replaces it in an object store"
DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(EOFError, NotImplementedError, ValueError),
)


@dataclass(frozen=True)
class ArchiveLimits:
    """The most that an archive may unpack to; real data sets stay far below.

    A good compressor shrinks text or masks to about a hundredth at most. Small archives may have
    any ratio.
    """

    ratio: int = 200
    harmless_bytes: int = 100_000_000
    most_bytes: int = 2_000_000_000_000
    files: int = 10_000_000

    def count_allowed_bytes(self, packed_bytes: int) -> int:
        """Return how many bytes an archive of this size may unpack to."""
        return min(self.most_bytes, max(self.harmless_bytes, self.ratio * packed_bytes))

    def __str__(self) -> str:
        least, most = format_bytes(self.harmless_bytes), format_bytes(self.most_bytes)
        return f"{self.ratio} times its size, {least} at least and {most} at most"


@dataclass(frozen=True)
class _Member:
    path: str
    kind: str  # file, folder, link (by its path in the archive), or another kind
    target: str = ""
    open: Callable[[], IO[bytes]] | None = None


def is_archive(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def is_like(file: Path, name: str) -> bool:
    zipped = name.lower().endswith(".zip")
    return zipfile.is_zipfile(file) if zipped else tarfile.is_tarfile(file)


def warn_if_not_unpacked(name: str) -> str:
    """Return a warning if an archive of this name is not unpacked; else empty."""
    if not name.lower().endswith(NOT_UNPACKED):
        return ""
    return f"{name} is copied without unpacking: only {', '.join(SUFFIXES)} are unpacked"


def unpack(archive: Path, folder: Path, limits: ArchiveLimits | None = None) -> None:
    """Unpack an archive into an empty folder; raises DataError and leaves partial files then.

    Owners, modes and times are dropped.
    """
    with _translating(archive):
        allowed = _Allowance(archive, folder, limits or ArchiveLimits())
        list_members = _list_zip if archive.name.lower().endswith(".zip") else _list_tar
        links = [member for member in list_members(archive) if not _place(member, folder, allowed)]
        _copy_links(links, folder, allowed)


class _Allowance:
    """The remaining number of bytes and files."""

    def __init__(self, archive: Path, folder: Path, limits: ArchiveLimits) -> None:
        self._archive = archive
        self._limits = limits
        self._packed_bytes = archive.stat().st_size
        self._bytes_left = limits.count_allowed_bytes(self._packed_bytes)
        self._files_left = limits.files
        self._free_bytes = shutil.disk_usage(folder).free

    def take(self, size_bytes: int) -> None:
        self._bytes_left -= size_bytes
        self._free_bytes -= size_bytes
        if self._bytes_left < 0:
            allowed = self._limits.count_allowed_bytes(self._packed_bytes)
            said = f"its {format_bytes(self._packed_bytes)} unpack to more than"
            bound = f"{format_bytes(allowed)}; the limit is {self._limits}"
            raise _refuse(self._archive, f"{said} {bound}")
        if self._free_bytes < 0:
            raise OSError(errno.ENOSPC, "no space left on device", str(self._archive))

    def take_file(self) -> None:
        self._files_left -= 1
        if self._files_left < 0:
            raise _refuse(self._archive, f"it holds more than {self._limits.files:,} files")


def _refuse(archive: Path, said: str) -> DataError:
    hint = f"check it; if it is correct, unpack {archive.name} yourself and put the folder"
    return DataError(f"{archive}: {said}", hint)


def _place(member: _Member, folder: Path, allowed: _Allowance) -> bool:
    """Write one member below the folder; return False for a link, which follows later."""
    allowed.take_file()
    if member.kind == "folder":
        return True
    path = _check(member.path, member.path)
    if member.kind == "link":
        _check(member.target, member.path)
        return False
    if member.kind != "file" or member.open is None:
        raise DataError(f"{member.path!r} is {member.kind}")
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with member.open() as source, target.open("wb") as written:
        while chunk := source.read(CHUNK_BYTES):
            allowed.take(len(chunk))
            written.write(chunk)
    return True


def _check(path: str, member: str) -> str:
    """Return an archive path as a path below the folder; raises DataError."""
    try:
        checked = check_path(path)
    except DataError:
        raise DataError(f"{member!r} points outside the archive, or is not a file path") from None
    if is_own(checked):
        raise DataError(f"{member!r} has a name that deployer reserves")
    return checked


def _copy_links(links: Iterable[_Member], folder: Path, allowed: _Allowance) -> None:
    """Copy the targets of links; a link to a link waits until that one is a file."""
    left, rounds = list(links), 0
    while left:
        ready = [link for link in left if (folder / link.target).is_file()]
        rounds += 1
        if not ready or rounds > MOST_LINKS_IN_A_ROW:
            raise DataError(
                f"{left[0].path!r} is a link to {left[0].target!r}, which is not a file in it"
            )
        for link in ready:
            source, target = folder / link.target, folder / link.path
            allowed.take(source.stat().st_size)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source != target:
                shutil.copyfile(source, target)
        left = [link for link in left if link not in ready]


def _list_tar(archive: Path) -> Iterator[_Member]:
    with tarfile.open(archive, "r|*") as opened:
        for info in opened:
            yield _read_tar_member(opened, info)


def _read_tar_member(opened: tarfile.TarFile, info: tarfile.TarInfo) -> _Member:
    path = _strip(info.name)
    if info.isdir():
        return _Member(path, "folder")
    if info.isreg():
        return _Member(path, "file", open=lambda: _extract(opened, info))
    if info.islnk():  # relative to the archive's root
        return _Member(path, "link", _strip(info.linkname))
    if info.issym():
        return _Member(path, "link", _resolve(path, info.linkname))
    return _Member(path, "a device, a pipe or a socket")


def _extract(opened: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    stream = opened.extractfile(info)
    assert stream is not None  # a regular file
    return stream


def _list_zip(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            yield _read_zip_member(opened, info)


def _read_zip_member(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    path = _strip(info.filename)
    if info.is_dir():
        return _Member(path, "folder")
    if info.flag_bits & 1:
        return _Member(path, "encrypted")
    mode = stat.S_IFMT(info.external_attr >> 16)
    if mode == stat.S_IFLNK:
        with opened.open(info) as stream:
            return _Member(path, "link", _resolve(path, stream.read(4096).decode()))
    if mode not in (0, stat.S_IFREG):
        return _Member(path, "a device, a pipe or a socket")
    return _Member(path, "file", open=lambda: opened.open(info))


def _strip(name: str) -> str:
    """Return a member's name without tar's leading `./`."""
    while name.startswith("./"):
        name = name[2:]
    return name.removesuffix("/")


def _resolve(path: str, target: str) -> str:
    """Return a symbolic link's target, relative to the archive's root."""
    if target.startswith("/"):
        return target
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


@contextmanager
def _translating(archive: Path) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        if error.message.startswith(str(archive)):
            raise
        raise _refuse(archive, error.message) from error
    except DAMAGED as error:
        raise DataError(f"{archive}: is damaged, or not an archive", DAMAGED_HINT) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        said = error.strerror or "is damaged, or not an archive"  # BadGzipFile has no number
        if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.EEXIST):
            said = "a file and a folder in it have the same name"
        raise _refuse(archive, said.lower()) from error
