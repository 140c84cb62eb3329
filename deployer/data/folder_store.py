"""A local folder as a store."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from deployer.data.store import PARTIAL_FOLDER, Entry, Store, check_path, is_own
from deployer.errors import DataError

CHUNK_BYTES = 1 << 20
OTHER_PLACE = "choose another place, or make it writable"
HINTS = {
    errno.EACCES: "ask its owner for access, or choose another place",
    errno.EPERM: "ask its owner for access, or choose another place",
    errno.EROFS: OTHER_PLACE,
    errno.ENOENT: OTHER_PLACE,
    errno.ENOTDIR: "a file and a folder have the same name: rename or remove one of them",
    errno.EISDIR: "a file and a folder have the same name: rename or remove one of them",
    errno.ENOTEMPTY: "a file and a folder have the same name: rename or remove one of them",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.ELOOP: "remove the links that lead to each other",
}


class FolderStore(Store):
    """A local folder; it is created for the first file.

    Links are followed if they stay inside, with `links_out` also outside. Partial files are in a
    separate folder, which exists until a copy is complete.
    """

    parallel = 4

    def __init__(self, root: Path, links_out: bool = False) -> None:
        self.root = root
        self._links_out = links_out
        self._listed: dict[str, str] = {}

    def describe(self) -> str:
        return str(self.root)

    def list_entries(self) -> Sequence[Entry]:
        """Return every file; rejects devices, pipes, and broken or outside links."""
        with _translating(self.root):
            if not self._exists():
                return []
            above = (os.path.realpath(self.root),)
            found = sorted(self._walk(self.root, above), key=lambda entry: entry.path)
        self._listed = {entry.path: entry.tag for entry in found}
        return found

    def checksum(self, path: str) -> str | None:
        file = self._find(path)
        with _translating(file):
            return _hash_file(file) if file.is_file() else None

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Yield the file's bytes; rejects a file that has changed since it was listed."""
        file = self._find(path)
        with _translating(file), file.open("rb") as stream:
            stream.seek(offset)
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk
            if self._listed.get(path) not in (None, build_tag(os.fstat(stream.fileno()))):
                raise DataError(
                    f"{file} changed during the copy",
                    "do not change the source during a copy; type the command again",
                )

    def partial_size(self, entry: Entry) -> int:
        partial = self._partial(entry)
        with _translating(partial):
            return partial.stat().st_size if partial.is_file() else 0

    def write(self, entry: Entry, chunks: Iterable[bytes], offset: int = 0) -> None:
        """Append to the partial file; the data is on disk on return."""
        partial = self._partial(entry)
        with _translating(self.root):
            partial.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("r+b" if offset else "wb") as stream:
                stream.truncate(offset)
                stream.seek(offset)
                for chunk in chunks:
                    stream.write(chunk)
                stream.flush()
                os.fsync(stream.fileno())

    def finish(self, entry: Entry) -> bool:
        """Reread and verify the partial file, then rename it."""
        partial, file = self._partial(entry), self._place(entry.path)
        with _translating(file):
            if not _is_what(partial, entry):
                partial.unlink(missing_ok=True)
                return False
            file.parent.mkdir(parents=True, exist_ok=True)
            partial.replace(file)
            return True

    def delete(self, path: str) -> None:
        file = self._place(path)
        with _translating(file):
            file.unlink(missing_ok=True)
            for folder in file.parents:
                if folder == self.root or not folder.is_relative_to(self.root):
                    return
                with suppress(OSError):
                    folder.rmdir()

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Mark the copy by the folder of partial files, locked against a second copy."""
        marks = self.root / PARTIAL_FOLDER
        with _translating(self.root):
            self._exists()
            marks.mkdir(parents=True, exist_ok=True)
            handle = os.open(marks, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock(handle, self.root)
            yield
            with _translating(self.root):
                shutil.rmtree(marks)
        finally:
            os.close(handle)

    def is_locked(self) -> bool:
        """Return True if a copy to the folder is running."""
        try:
            handle = os.open(self.root / PARTIAL_FOLDER, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(handle)

    def is_unfinished(self) -> bool:
        return (self.root / PARTIAL_FOLDER).is_dir()

    def delete_all(self) -> bool:
        """Delete the folder and its contents, links as such; return True if it existed."""
        with _translating(self.root):
            if not self._exists():
                return False
            for folder, folders, names in os.walk(self.root, topdown=False):
                for place in (Path(folder, name) for name in (*folders, *names)):
                    if place.is_dir() and not place.is_symlink():
                        place.rmdir()
                    else:
                        place.unlink(missing_ok=True)
            with suppress(OSError):  # a link or a mount point stays
                self.root.rmdir()
        return True

    def _exists(self) -> bool:
        """Return True if the folder exists; raises DataError if it is a file."""
        for place in (self.root, *self.root.parents):
            if place.exists():
                if not place.is_dir():
                    raise DataError(f"{place} is not a folder", "name another one")
                return place == self.root
        return False

    def _walk(self, folder: Path, above: tuple[str, ...]) -> Iterator[Entry]:
        """Yield the files below a folder; `above` are the real paths of it and its parents."""
        for one in os.scandir(folder):
            path = check_path(os.path.relpath(one.path, self.root))
            if is_own(path):
                continue
            if one.is_symlink():
                self._check_link(one.path, above)
            if one.is_dir():
                yield from self._walk(Path(one.path), (*above, os.path.realpath(one.path)))
                continue
            found = os.stat(one.path)
            if not stat.S_ISREG(found.st_mode):
                raise DataError(f"{one.path} is not a regular file", "remove it")
            yield Entry(path, found.st_size, tag=build_tag(found))

    def _check_link(self, link: str, above: tuple[str, ...]) -> None:
        """Reject a link that cannot be copied as its target; raises DataError."""
        end = os.path.realpath(link)
        said = ""
        if not os.path.exists(end):
            said = f"to {end}, which does not exist"
        elif end in above:
            said = f"to {end}, a folder that contains it"
        elif not self._links_out and not Path(end).is_relative_to(above[0]):
            said = f"that leads out of {self.root}, to {end}"
        if said:
            hint = "replace it with its target, or remove it"
            raise DataError(f"{link} is a link {said}", hint)

    def _find(self, path: str) -> Path:
        """Return a file's path for reading; raises DataError if a link leads outside."""
        return self.root / check_path(path) if self._links_out else self._place(path)

    def _place(self, path: str) -> Path:
        """Return a file's path; raises DataError if a link leads outside the folder."""
        file = self.root / check_path(path)
        # The file itself may be a link: it is read, replaced or deleted as such.
        if not file.parent.resolve().is_relative_to(self.root.resolve()):
            said = f"{file} is outside {self.root}: a parent folder is a link"
            raise DataError(said, "replace the link with a folder, or choose another folder")
        return file

    def _partial(self, entry: Entry) -> Path:
        return self.root / PARTIAL_FOLDER / entry.identity


def _lock(handle: int, root: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DataError(
            f"{root}: another copy to it is in progress", "wait until it ends"
        ) from error
    except OSError:  # no locks here; two concurrent copies waste time but lose no file
        return


def build_tag(found: os.stat_result) -> str:
    """Return a tag that changes with each version of a file."""
    return f"{found.st_size} {found.st_mtime_ns}"


def _is_what(file: Path, entry: Entry) -> bool:
    if not file.is_file() or file.stat().st_size != entry.size_bytes:
        return False
    return entry.sha256 is None or _hash_file(file) == entry.sha256


def _hash_file(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def _translating(place: Path) -> Iterator[None]:
    """Translate the system's errors about a file to ours, except a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(error.errno, error.strerror, str(place)) from error
        hint = HINTS.get(error.errno or 0, "type the command again: it resumes where it stopped")
        raise DataError(f"{error.filename or place}: {error.strerror or error}", hint) from error
