"""The interface of a location with a tree of files, and the allowed names in a tree."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from deployer.errors import DataError

# A copy's unfinished files, at the root of its target, in any store.
PARTIAL_FOLDER = ".deployer-partial"
# The origin of a copy of a data set, at its root.
ORIGIN_NOTE = ".deployer-origin.json"
# In an object store: the mark of an unfinished copy, and the checksum's name in the metadata.
COPY_MARK = f"{PARTIAL_FOLDER}/copying"
CHECKSUM = "sha256"
LONGEST_NAME_BYTES = 255  # of Linux's file systems


@dataclass(frozen=True)
class Entry:
    """A file of a tree: its path from the root, with slashes, and its size.

    `sha256` is None if computing it would require reading the file. `tag` identifies a version of
    the file: the time of its last change, an ETag.
    """

    path: str
    size_bytes: int
    sha256: str | None = None
    tag: str = ""

    @cached_property
    def identity(self) -> str:
        """A name of exactly this content under this path: only the same identity is resumed."""
        version = self.sha256 or self.tag
        return hashlib.sha256(f"{self.path}\0{self.size_bytes}\0{version}".encode()).hexdigest()


def check_path(path: str) -> str:
    """Return a path that is valid on Linux and stays below the root; raises DataError."""
    parts = path.split("/")
    wrong = next((part for part in parts if part in ("", ".", "..") or "\0" in part), None)
    if wrong is not None:
        raise DataError(f"{path!r} is not a file path in a data set", "rename it")
    try:
        longest = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError as error:
        raise DataError(f"{path!r}: the name is not UTF-8", "rename it") from error
    if longest > LONGEST_NAME_BYTES:
        said = f"{path!r}: the name is longer than {LONGEST_NAME_BYTES} bytes"
        raise DataError(said, "rename it")
    return path


def is_own(path: str) -> bool:
    """Return True if a path belongs to the copy itself, not to the data."""
    return path in (PARTIAL_FOLDER, ORIGIN_NOTE) or path.startswith(f"{PARTIAL_FOLDER}/")


class Store(ABC):
    """A tree of files in any location. Each method raises DataError.

    A file is written to a partial one, which `finish` renames, so no reader sees half a file under
    its final name. A partial file belongs to an entry's `identity`, so that an interrupted copy
    resumes only with the same content. `parallel` is how many threads may call it at a time.
    `batches` is True if many small files together cost hardly more than one.
    """

    parallel = 1
    batches = False

    def __str__(self) -> str:
        return self.describe()

    @abstractmethod
    def describe(self) -> str:
        """Return the location for messages: a folder, an address, a claim."""

    @abstractmethod
    def list_entries(self) -> Sequence[Entry]:
        """Return every file by path, without partial ones; empty if the location is missing."""

    @abstractmethod
    def checksum(self, path: str) -> str | None:
        """Return a file's SHA-256 if the store has or computes it without sending the file.

        None if it does not, or if the file does not exist.
        """

    def list_checksums(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        """Return the checksums of files, each like `checksum`."""
        return {path: self.checksum(path) for path in paths}

    @abstractmethod
    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Yield a file's bytes from `offset` on."""

    @abstractmethod
    def partial_size(self, entry: Entry) -> int:
        """Return how many bytes of exactly this content the partial file has; else 0."""

    @abstractmethod
    def write(self, entry: Entry, chunks: Iterable[bytes], offset: int = 0) -> None:
        """Append to the partial file, which has `offset` bytes; 0 restarts it."""

    @abstractmethod
    def finish(self, entry: Entry) -> bool:
        """Rename the partial file if it matches the entry: size and SHA-256.

        Otherwise return False and delete it.
        """

    def read_many(self, entries: Sequence[Entry]) -> Iterator[tuple[Entry, bytes]]:
        """Yield small files, each with its content."""
        for entry in entries:
            yield entry, b"".join(self.read(entry.path))

    def write_many(self, files: Iterable[tuple[Entry, bytes]]) -> Set[str]:
        """Write small files, each like `write` and `finish`; return the correct ones."""
        right = set()
        for entry, held in files:
            self.write(entry, [held])
            if self.finish(entry):
                right.add(entry.path)
        return right

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Mark the tree as the target of a copy, until the block ends without an error.

        Partial files of an earlier copy are kept for this one, and deleted at the end.
        """
        yield

    def is_unfinished(self) -> bool:
        """Return True if a copy to here was started and not finished."""
        return False

    def delete_all(self) -> bool:
        """Delete every file, including partial ones; return True if any existed."""
        entries = self.list_entries()
        for entry in entries:
            self.delete(entry.path)
        return bool(entries)

    def close(self) -> None:
        """Release the store's connections or pods."""

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
