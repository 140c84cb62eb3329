"""A volume in a cluster as a store of files, through its data loader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager

from deployer.data.store import Store
from deployer.data.tree import Entry, is_own
from deployer.executors.kubernetes.data.loader_client import LoaderClient, SmallFile

BLOCK_BYTES = 4 << 20  # what is sent again after a lost connection, at most


class VolumeStore(Store):
    """The files of the volume that `client` reaches; `folder` is a part of it, empty for all.

    `close` ends what the client needs.
    """

    parallel = 4
    batches = True

    def __init__(self, client: LoaderClient, where: str, close: Callable[[], None]) -> None:
        self._client = client
        self._where = where
        self._close = close

    def describe(self) -> str:
        """Name the volume."""
        return self._where

    def list_entries(self) -> Sequence[Entry]:
        """Return every file; checksums are computed when they are asked for."""
        return [
            Entry(str(one["path"]), int(one["size_bytes"]), tag=str(one["tag"]))
            for one in self._client.list_entries()
            if not is_own(str(one["path"]))
        ]

    def checksum(self, path: str) -> str | None:
        """Have the loader read the file."""
        return self._client.get_checksum(path)

    def list_checksums(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        """Have the loader read the files."""
        return self._client.get_checksums(paths)

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Yield the file's bytes, also across lost connections."""
        return self._client.read(path, offset)

    def read_many(self, entries: Sequence[Entry]) -> Iterator[tuple[Entry, bytes]]:
        """Read small files in one request."""
        paths = [entry.path for entry in entries]
        return zip(entries, self._client.read_many(paths), strict=True)

    def write_many(self, files: Iterable[tuple[Entry, bytes]]) -> Set[str]:
        """Write small files in one request; the loader verifies each."""
        sized = [(entry, held) for entry, held in files if len(held) == entry.size_bytes]
        return self._client.write_many(
            [SmallFile(entry.path, held, entry.sha256) for entry, held in sized]
        )

    def partial_size(self, entry: Entry) -> int:
        """Return the size of the partial file."""
        return self._client.get_partial_size(entry.identity)

    def write(self, entry: Entry, chunks: Iterable[bytes], offset: int = 0) -> None:
        """Add to the partial file; a chunk that is on the volume counts, whatever comes next."""
        if entry.size_bytes == 0:
            self._client.write(entry.identity, 0, b"")
        for block in _join(chunks):
            self._client.write(entry.identity, offset, block)
            offset += len(block)

    def finish(self, entry: Entry) -> bool:
        """Have the loader verify and rename it."""
        return self._client.finish(entry.path, entry.identity, entry.size_bytes, entry.sha256)

    def delete(self, path: str) -> None:
        """Delete the file, and the folders above it that are empty then."""
        self._client.delete(path)

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Mark the volume; a loader takes one copy at a time."""
        self._client.begin()
        yield
        self._client.end()

    def is_unfinished(self) -> bool:
        """Tell whether the mark is there."""
        return self._client.is_unfinished()

    def delete_all(self) -> bool:
        """Have the loader delete everything, partial files too."""
        return self._client.clear()

    def close(self) -> None:
        """End the loader."""
        self._close()


def _join(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield larger blocks, each of which costs one request."""
    block = bytearray()
    for chunk in chunks:
        block += chunk
        while len(block) >= BLOCK_BYTES:
            yield bytes(block[:BLOCK_BYTES])
            del block[:BLOCK_BYTES]
    if block:
        yield bytes(block)
