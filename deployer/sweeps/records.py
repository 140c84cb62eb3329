"""Which sweeps this user created from which project folder: one small JSON file for each.

A record is written before its sweep is made, so that a second try after any failure asks the
server for the same sweep again (`mutation_id`) and makes no other.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from deployer.config.paths import sweeps_folder

if TYPE_CHECKING:
    from deployer.wandb_api.server import Server

ENDING = ".json"


@dataclass(frozen=True)
class SweepRecord:
    """One sweep; `sweep_path` is empty until it is known that the server has created it.

    `server` is `embedded` or a base URL; `created_at`, and `continued_at` if `up` went on with it,
    are in seconds since the epoch. `on` is where its agents were started last, empty before that;
    `backend_on` is the `--on` of the cluster in which the embedded backend is, `cluster` that
    cluster's id; both are empty for this machine. `data` is the folder that it was copied to before
    its cluster was deleted. `commit` is that of its
    code, if it is from git: agents that join later run the same. `packing` is what was measured of
    how many agents share a GPU.
    """

    mutation_id: str
    sweep_path: str
    server: str
    base_url: str
    folder: str
    file: str
    content_hash: str
    created_at: float
    on: str = ""
    continued_at: float = 0.0
    backend_on: str = ""
    commit: str = ""
    data: str = ""
    packing: dict[str, Any] = field(default_factory=dict)
    cluster: str = ""

    def is_same(self, other: SweepRecord) -> bool:
        """Return True for the record of the same sweep, whatever was noted in it meanwhile."""
        return self.mutation_id == other.mutation_id

    def is_on(self, server: Server) -> bool:
        """Return True if the sweep is on this server: in a cluster, on that of the same cluster."""
        if server.inside:
            return (self.cluster, self.base_url) == (server.inside.cluster, server.url)
        return not self.backend_on and self.server == server.name


Wanted = Callable[[SweepRecord], bool]
Mark = tuple[int, int, int]  # a file that was replaced has another one


class Records:
    """The sweeps made here, that of the last `up` first; one object for all of a process.

    A file is read once, and again only if another command has replaced it. What is written is
    in its file at once; a writer holds the folder's lock and begins with what is there then, so
    that nothing is lost that another command has written meanwhile.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._refreshing = Lock()
        self._read: dict[str, tuple[Mark, SweepRecord | None]] = {}
        self._records: tuple[SweepRecord, ...] = ()

    @classmethod
    def load(cls) -> Records:
        """Return all records, as they are now."""
        records = _open(sweeps_folder())
        records._refresh()
        return records

    def __iter__(self) -> Iterator[SweepRecord]:
        return iter(self._records)

    def made_in(self, folder: Path) -> tuple[SweepRecord, ...]:
        """Return the records of one project folder."""
        return tuple(one for one in self if one.folder == str(folder))

    def made_from(self, file: Path) -> tuple[SweepRecord, ...]:
        """Return the records of the sweeps that were made from a file."""
        path = _resolve(file)
        return tuple(one for one in self if _resolve(Path(one.folder, one.file)) == path)

    def of(self, sweep_path: str) -> tuple[SweepRecord, ...]:
        """Return a sweep's records: one, or none, unless servers have given the same path."""
        return tuple(one for one in self if one.sweep_path == sweep_path)

    def add(self, record: SweepRecord) -> None:
        """Write a record, in the place of an earlier one of the same sweep."""
        with self._writing():
            self._write(record)

    def note(self, sweep_path: str, **changes: Any) -> None:
        """Change what is known of a sweep."""
        self.change(lambda one: one.sweep_path == sweep_path, **changes)

    def change(self, wanted: Wanted, **changes: Any) -> None:
        """Change the records that are wanted; one that is gone by then stays so."""

        def is_stale(record: SweepRecord) -> bool:
            return wanted(record) and replace(record, **changes) != record

        self._refresh()
        if any(map(is_stale, self)):
            with self._writing():
                for record in filter(is_stale, self):
                    self._write(replace(record, **changes))

    def forget(self, wanted: Wanted) -> None:
        """Delete the records that are wanted, from whichever folder their sweeps were made."""
        self._refresh()
        if any(map(wanted, self)):
            with self._writing():
                for record in filter(wanted, self):
                    self._path_of(record).unlink(missing_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self._folder / ".lock", "wb") as lock:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            self._refresh()
            yield
            self._refresh()

    def _write(self, record: SweepRecord) -> None:
        path = self._path_of(record)
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(json.dumps(asdict(record), indent=1) + "\n", encoding="utf-8")
        draft.replace(path)

    def _path_of(self, record: SweepRecord) -> Path:
        return self._folder / f"{record.mutation_id}{ENDING}"

    def _refresh(self) -> None:
        with self._refreshing:
            found = dict(self._look())
            if found != self._read:
                records = [record for _, record in found.values() if record]
                records.sort(key=lambda one: max(one.created_at, one.continued_at), reverse=True)
                self._read, self._records = found, tuple(records)

    def _look(self) -> Iterator[tuple[str, tuple[Mark, SweepRecord | None]]]:
        """Yield each file with its record, which is None if it cannot be read."""
        try:
            files = [one for one in os.scandir(self._folder) if one.name.endswith(ENDING)]
        except FileNotFoundError:
            return
        for file in files:
            with suppress(OSError):  # another command has deleted it
                mark = _mark(file)
                known = self._read.get(file.name)
                yield file.name, known if known and known[0] == mark else (mark, _parse(file))


@cache
def _open(folder: Path) -> Records:
    return Records(folder)


def _mark(file: os.DirEntry[str]) -> Mark:
    found = os.stat(file.path)
    return found.st_ino, found.st_mtime_ns, found.st_size


def _parse(file: os.DirEntry[str]) -> SweepRecord | None:
    try:
        return SweepRecord(**json.loads(Path(file.path).read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        return None  # half-written or of another version: it only means a path must be named


def _resolve(path: Path) -> Path:
    with suppress(ValueError):  # the locale may not express a folder's name
        return path.resolve()
    return path
