"""The database file: one writer that commits together what waits, and readers beside it.

A change is a function of the open connection. The writer's thread takes all that wait, each in a
savepoint, so that one that fails undoes itself alone, and commits once for all of them: what was
answered survives a power cut, and a thousand agents cost hardly more syncs than one. Whoever reads
sees one snapshot throughout, on a connection of its own, and waits for nobody.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from deployer.backend.db.rows import Connection
from deployer.backend.db.schema import check_schema, migrate, schema_of
from deployer.backend.refusal import is_full
from deployer.errors import BackendError

Result = TypeVar("Result")

DATABASE = "backend.sqlite"  # its name in the data folder
BUSY_TIMEOUT_SECONDS = 30
FULL_SECONDS = 1.0  # so long after a write that found no room, the disk counts as full
MOST_TOGETHER = 500  # changes in one commit
WAL_BYTES = 64 * 1024 * 1024  # the log is cut back to it after it had to grow


@dataclass
class Change(Generic[Result]):
    """What is to be written, and where its outcome goes."""

    work: Callable[[Connection], Result]
    done: Future[Result] = field(default_factory=Future)
    result: Result | None = None
    error: Exception | None = None

    def apply(self, db: Connection) -> None:
        """Do it in a savepoint, which is undone if it fails."""
        db.execute("SAVEPOINT change")
        try:
            self.result = self.work(db)
        except Exception as error:
            if not db.in_transaction:  # SQLite itself undid all of it
                raise
            self.error = error
            db.execute("ROLLBACK TO change")
        db.execute("RELEASE change")

    def answer(self, error: BaseException | None = None) -> None:
        """Say what became of it; an `error` is the commit's."""
        if error or self.error:
            self.done.set_exception(error or self.error)
        else:
            self.done.set_result(self.result)  # type: ignore[arg-type]


class Store:
    """The backend's SQLite file in WAL mode."""

    def __init__(self, path: Path, *, migrating: bool = False) -> None:
        """Open the file; an older one is brought up to date if `migrating`. Raise BackendError."""
        self.path = path
        self._full_at: float | None = None
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[Change[Any] | None] = queue.SimpleQueue()
        self._readers: queue.LifoQueue[Connection] = queue.LifoQueue()
        self._joined = threading.local()
        self._connection = _connect(path)
        try:
            check_schema(path.parent, schema_of(self._connection), migrating)
        except BackendError:
            self._connection.close()
            raise
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("PRAGMA foreign_keys=ON")
        self._connection.execute(f"PRAGMA journal_size_limit={WAL_BYTES}")
        migrate(self._connection)
        path.chmod(0o600)
        self._writer = threading.Thread(target=self._write, name="writer", daemon=True)
        self._writer.start()

    def submit(self, work: Callable[[Connection], Result]) -> Future[Result]:
        """Have something written; its outcome is there once it is on the disk.

        `work` runs in the writer's thread and must not wait for anything.
        """
        change = Change(work)
        self._waiting.put(change)
        return change.done

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield the writing connection in a transaction of its own; an exception undoes all of it.

        Inside a change, a snapshot or another transaction of the same thread it joins that one.
        """
        if joined := self._current():
            yield joined
            return
        with self._lock, self._joining(self._connection) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.commit()
            except BaseException as error:
                self._note_full(error)
                db.rollback()
                raise

    @property
    def joined(self) -> Connection:
        """Return the connection of this thread's change, transaction or snapshot."""
        connection = self._current()
        assert connection, "read outside a change, a transaction or a snapshot"
        return connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Yield a connection that sees one state of the database throughout, and changes nothing.

        Inside a change or a transaction of the same thread it joins that one.
        """
        if joined := self._current():
            yield joined
            return
        try:
            reader = self._readers.get_nowait()
        except queue.Empty:
            reader = _connect(self.path)
            reader.execute("PRAGMA query_only=ON")
        try:
            with self._joining(reader) as db:
                db.execute("BEGIN")
                yield db
        finally:
            reader.rollback()
            self._readers.put(reader)

    def is_writing(self, db: Connection) -> bool:
        """Tell whether a connection is the writer's, whose changes may still be undone."""
        return db is self._connection

    @property
    def full(self) -> bool:
        """Tell whether a recent write found the disk full."""
        return self._full_at is not None and time.monotonic() - self._full_at < FULL_SECONDS

    @property
    def writing(self) -> bool:
        """Tell whether the writer is there."""
        return self._writer.is_alive()

    @property
    def waiting(self) -> int:
        """Return how many changes wait for the writer."""
        return self._waiting.qsize()

    def close(self) -> None:
        """Write what waits and close the file; the WAL is folded back into it."""
        self._waiting.put(None)
        self._writer.join()
        while not self._readers.empty():
            self._readers.get_nowait().close()
        with self._lock:
            self._connection.close()

    def _write(self) -> None:
        going_on = True
        while going_on:
            taken = [self._waiting.get()]
            while len(taken) < MOST_TOGETHER and not self._waiting.empty():
                taken.append(self._waiting.get())
            going_on = None not in taken
            wanted = [one for one in taken if one and one.done.set_running_or_notify_cancel()]
            if wanted:
                self._write_together(wanted)

    def _write_together(self, changes: Sequence[Change[Any]]) -> None:
        try:
            with self.transaction() as db:
                for change in changes:
                    change.apply(db)
        except BaseException as error:
            for change in changes:
                change.answer(error)
            return
        for change in changes:
            if change.error:
                self._note_full(change.error)
            change.answer()

    def _current(self) -> Connection | None:
        return getattr(self._joined, "connection", None)

    @contextmanager
    def _joining(self, connection: Connection) -> Iterator[Connection]:
        self._joined.connection = connection
        try:
            yield connection
        finally:
            self._joined.connection = None

    def _note_full(self, error: BaseException) -> None:
        if is_full(error):
            self._full_at = time.monotonic()


@contextmanager
def read_only(path: Path) -> Iterator[Connection]:
    """Yield a connection that changes nothing, to a file of any version, served or not."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        yield connection
    finally:
        connection.close()


def _connect(path: Path) -> Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_SECONDS
    )
    connection.row_factory = sqlite3.Row
    return connection
