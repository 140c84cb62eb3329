"""A store that is only read: what a run has kept."""

from __future__ import annotations

from collections.abc import Iterable

from deployer.data.store import Store
from deployer.data.tree import Entry
from deployer.errors import DataError


class ReadOnlyStore(Store):
    """Refuses whatever would change it."""

    def partial_size(self, entry: Entry) -> int:
        """Refuse."""
        raise self._refuse(entry.path)

    def write(self, entry: Entry, chunks: Iterable[bytes], offset: int = 0) -> None:
        """Refuse."""
        del chunks, offset
        raise self._refuse(entry.path)

    def finish(self, entry: Entry) -> bool:
        """Refuse."""
        raise self._refuse(entry.path)

    def delete(self, path: str) -> None:
        """Refuse."""
        raise self._refuse(path)

    def _refuse(self, path: str) -> DataError:
        return DataError(f"{self}: {path} cannot be changed: what a run has kept is only read")
