"""All that one run has kept as one store: its outputs, and below them the artifacts it logged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from deployer.data.store import Store
from deployer.data.tree import Entry, check_path
from deployer.outputs.read_only import ReadOnlyStore


class RunStore(ReadOnlyStore):
    """Stores by the folder below which their files are; the first of two equal paths counts."""

    def __init__(self, parts: Mapping[str, Store]) -> None:
        self._parts = parts
        self._places: dict[str, tuple[Store, str]] = {}
        self.parallel = min((store.parallel for store in parts.values()), default=1)

    def describe(self) -> str:
        """Name every part."""
        return ", ".join(store.describe() for store in self._parts.values())

    def list_entries(self) -> Sequence[Entry]:
        """Return every file of every part."""
        found: dict[str, Entry] = {}
        for folder, store in self._parts.items():
            for entry in store.list_entries():
                path = check_path(f"{folder}{entry.path}")
                if path not in found:
                    found[path] = replace(entry, path=path)
                    self._places[path] = (store, entry.path)
        return [found[path] for path in sorted(found)]

    def close(self) -> None:
        """Close every part."""
        for store in self._parts.values():
            store.close()

    def checksum(self, path: str) -> str | None:
        """Ask the file's own store."""
        store, inner = self._places[path]
        return store.checksum(inner)

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Read from the file's own store."""
        store, inner = self._places[path]
        return store.read(inner, offset)
