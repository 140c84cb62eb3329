"""What the parts of a running backend share, and when agents and runs were last heard of."""

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

# A process is heard of by its file stream alone; an agent speaks for its runs, too.
ClientKind = Literal["agent", "run", "process"]


# When agents and runs were last heard of, by a monotonic clock. Kept in memory on purpose: after a
# restart everybody counts as heard of at that moment, so the server's own downtime makes no agent
# look silent.


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
        """Forget who was silent for longer, which then counts from the server's start."""
        since = self._monotonic() - seconds
        with self._lock:
            for key in [key for key, last in self._last.items() if last < since]:
                del self._last[key]

    def silence_seconds(self, kind: ClientKind, row_id: int) -> float:
        """Return how long nothing was heard, the server's own start counting as a sign."""
        return self._monotonic() - self._last.get((kind, row_id), self._started)

    def count(self, kind: ClientKind, seconds: float) -> int:
        """Return how many were heard of in the last seconds."""
        since = self._monotonic() - seconds
        with self._lock:
            return sum(told == kind and last >= since for (told, _), last in self._last.items())


@dataclass
class Backend:
    """The store, the clocks, the search and the folder of one server process.

    `now` gives seconds since the epoch for display; silence is measured by `presence` alone.
    A `plain` backend hides whatever W&B's own server does not have. `ending` is set when the
    process is to stop: what lasts ends then. `metrics` are the runs' values of their sweep's
    metric. `rivals` says when the process of a run had been heard of last as another one, known by
    its configuration, first asked for the run.
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
        """Return where the bytes of uploaded files are."""
        return self.folder / "files"

    @cached_property
    def blobs(self) -> BlobFolder:
        """Return where the bytes of files are kept and received."""
        return BlobFolder(self.files_folder, self.folder / INCOMING_FOLDER)

    def close(self) -> None:
        self.blobs.threads.shutdown()
        self.suggestions.close()
        self.store.close()


@dataclass(frozen=True)
class Request:
    """One authenticated request: the backend, who asks, and the address they reached us at.

    `shared` tells that a process says of itself that others write to its run, too.
    `waited_seconds` is how long it has waited for a suggestion since it was first done.
    `in_writer` is True where the changes of all wait for this request.
    """

    backend: Backend
    caller: Caller
    base_url: str
    shared: bool = False
    waited_seconds: float = 0.0
    in_writer: bool = False

    @cached_property
    def db(self) -> Connection:
        """Return its connection: the writer's if it may change something, else a snapshot's."""
        return self.backend.store.joined
