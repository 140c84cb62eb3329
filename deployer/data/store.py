"""What a copy needs of the place where a tree of files is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager

from deployer.data.tree import Entry


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
        """Tell whether a copy to here was begun and has not come to its end."""
        return False

    def delete_all(self) -> bool:
        """Delete every file, partial ones too; tell whether there was any."""
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
