"""What a copy needs of a place with a tree of files, and which names a tree may have."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from deployer.errors import DataError

# What a copy that is not finished yet keeps at the root of its target, in any store.
PARTIAL_FOLDER = ".deployer-partial"
# At the root of a copy of a data set: what it was made from.
ORIGIN_NOTE = ".deployer-origin.json"
# In an object store: what marks a copy as unfinished, and what a checksum is called in metadata.
COPY_MARK = f"{PARTIAL_FOLDER}/copying"
CHECKSUM = "sha256"
LONGEST_NAME_BYTES = 255  # of Linux's file systems


@dataclass(frozen=True)
class Entry:
    """A file of a tree: its path from the root, with slashes, and its size.

    `sha256` is None where it would take reading the file. `tag` is whatever tells one version of
    the file from another: the time of its last change, an ETag.
    """

    path: str
    size_bytes: int
    sha256: str | None = None
    tag: str = ""

    @cached_property
    def identity(self) -> str:
        """Return what names exactly this content under this path: a copy goes on with no other."""
        version = self.sha256 or self.tag
        return hashlib.sha256(f"{self.path}\0{self.size_bytes}\0{version}".encode()).hexdigest()


def check_path(path: str) -> str:
    """Return a path that stays below the root and is a file's on Linux; raises DataError."""
    parts = path.split("/")
    wrong = next((part for part in parts if part in ("", ".", "..") or "\0" in part), None)
    if wrong is not None:
        raise DataError(f"{path!r} is no path of a file in a data set", "rename it")
    try:
        longest = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError as error:
        raise DataError(f"{path!r}: the name is not UTF-8", "rename it") from error
    if longest > LONGEST_NAME_BYTES:
        said = f"{path!r}: the name is longer than {LONGEST_NAME_BYTES} bytes"
        raise DataError(said, "rename it")
    return path


def is_own(path: str) -> bool:
    """Return whether a path is one of a copy's own, and none of the data."""
    return path in (PARTIAL_FOLDER, ORIGIN_NOTE) or path.startswith(f"{PARTIAL_FOLDER}/")


class Store(ABC):
    """A tree of files somewhere. Each method raises DataError.

    A file is written to a partial one, which `finish` renames: nobody sees half a file under its
    final name. A partial one belongs to an entry's `identity`, so that a copy that was broken off
    goes on with the same content only. `parallel` is how many threads may call it at a time,
    `batches` tells that many small files together cost it hardly more than one.
    """

    parallel = 1
    batches = False

    def __str__(self) -> str:
        return self.describe()

    @abstractmethod
    def describe(self) -> str:
        """Name the place for messages: a folder, an address, a claim."""

    @abstractmethod
    def list_entries(self) -> Sequence[Entry]:
        """Return every file by path, partial ones left out; nothing if there is no such place."""

    @abstractmethod
    def checksum(self, path: str) -> str | None:
        """Return a file's SHA-256 where the store has or computes it, without sending the file.

        None where it does not, or where there is no such file.
        """

    def list_checksums(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        """Return the checksums of files, each as `checksum` does."""
        return {path: self.checksum(path) for path in paths}

    @abstractmethod
    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Yield a file's bytes from `offset` on."""

    @abstractmethod
    def partial_size(self, entry: Entry) -> int:
        """Return how many bytes of exactly this content are there already, unfinished; else 0."""

    @abstractmethod
    def write(self, entry: Entry, chunks: Iterable[bytes], offset: int = 0) -> None:
        """Add bytes to the partial file, which has `offset` bytes; 0 begins anew."""

    @abstractmethod
    def finish(self, entry: Entry) -> bool:
        """Give the partial file its final name if it is what the entry says: size and SHA-256.

        Otherwise return False and keep nothing of it.
        """

    def read_many(self, entries: Sequence[Entry]) -> Iterator[tuple[Entry, bytes]]:
        """Yield small files, each with what is in it."""
        for entry in entries:
            yield entry, b"".join(self.read(entry.path))

    def write_many(self, files: Iterable[tuple[Entry, bytes]]) -> Set[str]:
        """Write small files, each as `write` and `finish` do; return those that are right."""
        right = set()
        for entry, held in files:
            self.write(entry, [held])
            if self.finish(entry):
                right.add(entry.path)
        return right

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file; one that is not there is no error."""

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Mark the tree as being copied to, until the block ends without an error.

        What an earlier copy has left is kept for this one, and gone at the end.
        """
        yield

    def is_unfinished(self) -> bool:
        """Return whether a copy to here was begun and has not come to its end."""
        return False

    def delete_all(self) -> bool:
        """Delete every file, partial ones too; return whether there was any."""
        entries = self.list_entries()
        for entry in entries:
            self.delete(entry.path)
        return bool(entries)

    def close(self) -> None:
        """Give back what the store holds: connections, pods."""

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
