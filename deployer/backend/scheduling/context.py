"""Shared state of a running backend, and the times of the last signs of life."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from deployer.backend.db.accounts import Caller
from deployer.backend.db.rows import Connection
from deployer.backend.db.store import DATABASE, Database
from deployer.backend.scheduling.lifecycle import Patience
from deployer.backend.scheduling.numbering import read_metric
from deployer.backend.scheduling.search import SearchEngine
from deployer.backend.scheduling.suggestions import Derived, Suggestions
from deployer.backend.storage.blob_folder import INCOMING_FOLDER, BlobFolder, Signer, load_signer

# Only a file stream is a sign of life of a process; an agent's heartbeat also counts for its runs.
ClientKind = Literal["agent", "run", "process"]


# Times of the last signs of life of agents and runs, by a monotonic clock. In memory on purpose: a
# restart counts as a sign of life of all, so the server's own downtime makes no agent look silent.


class Presence:
    """Seconds of silence for each agent and run, by a monotonic clock."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._started = monotonic()
        self._lock = threading.Lock()
        self._last: dict[tuple[ClientKind, int], float] = {}

    def seen(self, kind: ClientKind, row_id: int) -> None:
        with self._lock:
            self._last[kind, row_id] = self._monotonic()

    def forget(self, seconds: float) -> None:
        """Forget clients that were silent for longer; their silence counts from the start."""
        since = self._monotonic() - seconds
        with self._lock:
            for key in [key for key, last in self._last.items() if last < since]:
                del self._last[key]

    def silence_seconds(self, kind: ClientKind, row_id: int) -> float:
        """Return the seconds since the last sign of life, or since the server's start."""
        return self._monotonic() - self._last.get((kind, row_id), self._started)

    def count(self, kind: ClientKind, seconds: float) -> int:
        """Return how many clients had a sign of life in the last `seconds`."""
        since = self._monotonic() - seconds
        with self._lock:
            return sum(told == kind and last >= since for (told, _), last in self._last.items())


@dataclass
class Backend:
    """The store, the clocks, the search and the folder of one server process.

    `now` returns seconds since the epoch for display; only `presence` measures silence. A `plain`
    backend hides our extensions of W&B's server. `ending` is set when the process must stop, which
    ends long-lived responses. `metrics` are the runs' values of their sweep's metric. `rivals` is
    keyed by run and configuration of a second process that asked for the run; its value is the
    run's last heartbeat before that request.
    """

    folder: Path
    plain: bool = False
    patience: Patience = field(default_factory=Patience)
    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    store: Database = field(init=False)
    presence: Presence = field(init=False)
    search: SearchEngine = field(init=False)
    suggestions: Suggestions = field(init=False)
    metrics: Derived[float | None] = field(init=False)
    signer: Signer = field(init=False)
    ending: threading.Event = field(init=False, default_factory=threading.Event)
    rivals: dict[tuple[int, str], float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in (self.files_folder, self.blobs.incoming):
            folder.mkdir(exist_ok=True, mode=0o700)
        self.store = Database(self.folder / DATABASE, migrating=True)
        self.presence = Presence(self.monotonic)
        self.search = SearchEngine()
        self.suggestions = Suggestions(self.store, self.search)
        self.metrics = Derived(self.store, "summary", read_metric)
        self.signer = load_signer(self.folder)

    @property
    def files_folder(self) -> Path:
        """Return the folder of the bytes of uploaded files."""
        return self.folder / "files"

    @cached_property
    def blobs(self) -> BlobFolder:
        """Return the store of files' bytes."""
        return BlobFolder(self.files_folder, self.folder / INCOMING_FOLDER)

    def close(self) -> None:
        self.blobs.threads.shutdown()
        self.suggestions.close()
        self.store.close()


@dataclass(frozen=True)
class Request:
    """One authenticated request: the backend, the caller, and the address that the client used.

    `shared` means that the process expects others to write to its run, too. `waited_seconds` is how
    long it has waited for a suggestion. `in_writer` is True if it runs in the writer's thread and
    so blocks all other changes.
    """

    backend: Backend
    caller: Caller
    base_url: str
    shared: bool = False
    waited_seconds: float = 0.0
    in_writer: bool = False

    @cached_property
    def db(self) -> Connection:
        """Return its connection: the writer's if it may change data, else a snapshot's."""
        return self.backend.store.joined
