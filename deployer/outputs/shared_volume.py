"""A volume with the outputs of many runs: opened for the first that is looked for, listed once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from deployer.data.store import Store
from deployer.data.tree import Entry
from deployer.outputs.read_only import ReadOnlyStore


class SharedVolume:
    """What `open_store` opens, if anything, until the block ends."""

    def __init__(self, open_store: Callable[[], Store | None]) -> None:
        self._open_store = open_store
        self._store: Store | None = None
        self._runs: dict[str, list[Entry]] | None = None

    def __enter__(self) -> SharedVolume:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store:
            self._store.close()

    def open_run(self, sweep_id: str, run_id: str) -> Store:
        """Return what a run has written."""
        if self._runs is None:
            self._store = self._open_store()
            self._runs = _split(self._store.list_entries() if self._store else ())
        return RunPart(self._store, f"{sweep_id}/{run_id}", self._runs)


class RunPart(ReadOnlyStore):
    """The files of one run on a volume, whose store others read, too."""

    def __init__(self, store: Store | None, folder: str, runs: dict[str, list[Entry]]) -> None:
        self._store = store
        self._folder = folder
        self._entries = runs.get(folder, [])
        self.parallel = store.parallel if store else 1

    def describe(self) -> str:
        """Name the volume and the folder."""
        return f"{self._store}: {self._folder}"

    def list_entries(self) -> Sequence[Entry]:
        """Return the run's files."""
        return self._entries

    def checksum(self, path: str) -> str | None:
        """Ask the volume."""
        return self._store.checksum(f"{self._folder}/{path}") if self._store else None

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Read from the volume."""
        assert self._store is not None  # without one there is no file
        return self._store.read(f"{self._folder}/{path}", offset)


def _split(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Return the files of each run, by SWEEP_ID/RUN_ID; what lies beside them belongs to none."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        sweep_id, _, rest = entry.path.partition("/")
        run_id, _, path = rest.partition("/")
        if path:
            found[f"{sweep_id}/{run_id}"].append(replace(entry, path=path))
    return dict(found)
