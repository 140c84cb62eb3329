"""What the parts of a running backend share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from deployer.backend.db.accounts import Caller
from deployer.backend.db.rows import Connection
from deployer.backend.db.store import DATABASE, Store
from deployer.backend.scheduling.derived import Derived
from deployer.backend.scheduling.lifecycle import Patience
from deployer.backend.scheduling.presence import Presence
from deployer.backend.scheduling.ranking import read_metric
from deployer.backend.scheduling.search.engine import SearchEngine
from deployer.backend.scheduling.suggestions import Suggestions
from deployer.backend.storage.blob_folder import INCOMING_FOLDER, BlobFolder
from deployer.backend.storage.signed_urls import Signer, load_signer


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
    store: Store = field(init=False)
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
        self.store = Store(self.folder / DATABASE, migrating=True)
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
        """Stop the search and close the database."""
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
