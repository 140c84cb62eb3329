"""Records of the sweeps this user created from each project folder: one small JSON file each.

A record is written before its sweep is made. After any failure, a retry requests the same sweep
(`mutation_id`) and makes no duplicate.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deployer.agent.addresses import is_same
from deployer.config.paths import sweeps_folder

if TYPE_CHECKING:
    from deployer.wandb_api.server import Server

ENDING = ".json"


@dataclass(frozen=True)
class SweepRecord:
    """One sweep; `sweep_path` is empty until the server has confirmed its creation.

    `server` is `embedded` or a base URL. `created_at`, and `continued_at` if `up` continued it, are
    seconds since the epoch. `on` is where its agents were started last, empty before that.
    `backend_on` is the `--on` of the embedded backend's cluster and `cluster` that cluster's id;
    both are empty for a local backend. `context` and `namespace` are those of agents and backend in
    a cluster; `pinned` if flags named them, so they need not be named again. `cloud` is the cluster
    that was made for its agents, `projects/P/locations/L/clusters/NAME`. `data` is the folder that
    it was copied to before its cluster was deleted. `commit` is that of its code, if it is from
    git: agents that join later run the same code. `whole_hash` is the hash of the file from which
    `up --reuse` made only the missing configurations.
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
    cluster: str = ""
    context: str = ""
    namespace: str = ""
    cloud: str = ""
    pinned: bool = False
    whole_hash: str = ""

    def is_same(self, other: SweepRecord) -> bool:
        return self.mutation_id == other.mutation_id

    @property
    def place(self) -> tuple[str, str, str]:
        """The location of the last start of agents: `on`, and the names from flags."""
        return (self.on, self.context, self.namespace) if self.pinned else (self.on, "", "")

    def is_elsewhere(self, on: str, address: Mapping[str, str]) -> bool:
        """Return True if agents were last started in a location other than this one."""
        known = {"context": self.context, "namespace": self.namespace}
        moved = any(value and value != address[name] for name, value in known.items())
        return bool(self.on) and (self.on != on or moved)

    @property
    def place_options(self) -> str:
        named = {"on": self.on, "context": self.context, "namespace": self.namespace}
        return "".join(f" --{name} {shlex.quote(one)}" for name, one in named.items() if one)

    def is_on(self, server: Server) -> bool:
        """Return True if the sweep is on this server; in a cluster, on the same cluster's."""
        if server.inside:
            return (self.cluster, self.base_url) == (server.inside.cluster, server.url)
        return not self.backend_on and is_same(self.server, server.name)


Chosen = Callable[[SweepRecord], bool]


class Records:
    """The sweeps made here, the one of the last `up` first, as of the time of loading.

    Changes are written at once. A writer holds the folder's lock and starts from the current files,
    so concurrent commands lose no changes.
    """

    def __init__(self, records: Iterable[SweepRecord]) -> None:
        newest_first = sorted(records, key=lambda one: -max(one.created_at, one.continued_at))
        self._records = tuple(newest_first)

    @classmethod
    def load(cls) -> Records:
        """Return all records; files that this process has read are reread only if replaced."""
        return cls(filter(None, map(_read, sweeps_folder().glob(f"*{ENDING}"))))

    def __iter__(self) -> Iterator[SweepRecord]:
        return iter(self._records)

    def made_in(self, folder: Path) -> tuple[SweepRecord, ...]:
        return tuple(one for one in self if one.folder == str(folder))

    def made_from(self, file: Path) -> tuple[SweepRecord, ...]:
        path = _resolve(file)
        return tuple(one for one in self if _resolve(Path(one.folder, one.file)) == path)

    def of(self, sweep_path: str) -> tuple[SweepRecord, ...]:
        """Return a sweep's records: at most one, unless several servers use the same path."""
        return tuple(one for one in self if one.sweep_path == sweep_path)

    def add(self, record: SweepRecord) -> None:
        with self._writing():
            _write(record)

    def note(self, sweep_path: str, **changes: Any) -> None:
        self.change(lambda one: one.sweep_path == sweep_path, **changes)

    def change(self, wanted: Chosen, **changes: Any) -> None:
        """Change the wanted records; one deleted in the meantime stays deleted."""

        def is_stale(record: SweepRecord) -> bool:
            return wanted(record) and replace(record, **changes) != record

        if any(map(is_stale, self.load())):
            with self._writing():
                for record in filter(is_stale, self.load()):
                    _write(replace(record, **changes))

    def forget(self, wanted: Chosen) -> None:
        """Delete the wanted records, from any project folder."""
        if any(map(wanted, self.load())):
            with self._writing():
                for record in filter(wanted, self.load()):
                    _path_of(record).unlink(missing_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        folder = sweeps_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(folder / ".lock", "wb") as lock:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        self._records = self.load()._records


def _path_of(record: SweepRecord) -> Path:
    return sweeps_folder() / f"{record.mutation_id}{ENDING}"


def _write(record: SweepRecord) -> None:
    path = _path_of(record)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(asdict(record), indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


def _read(path: Path) -> SweepRecord | None:
    try:
        found = path.stat()
        return _parse(path, found.st_ino, found.st_mtime_ns, found.st_size)
    except OSError:
        return None  # another command has deleted it


@cache
def _parse(path: Path, *_replaced: int) -> SweepRecord | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return SweepRecord(
            **{one.name: content[one.name] for one in fields(SweepRecord) if one.name in content}
        )
    except (ValueError, TypeError):
        return None  # half-written or of another version: then the user must name the path


def _resolve(path: Path) -> Path:
    with suppress(ValueError):  # the locale may not be able to encode a folder's name
        return path.resolve()
    return path
