"""The database file: schema version, one writer with group commit, concurrent readers.

A change is a function of the open connection. The writer's thread runs all pending changes, each in
a savepoint, so that a failed one rolls back alone, and commits once for all of them. So an answered
change survives a power cut, and a thousand agents cost hardly more syncs than one. Each reader has
its own connection and sees one snapshot throughout; it never waits.
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

from deployer.backend.db.lines import row_step
from deployer.backend.db.rows import Connection
from deployer.backend.request import is_full
from deployer.errors import BackendError

SCHEMA_FILE = Path(__file__).with_name("schema.sql")  # the newest tables
OLDEST = 14  # the version before the first migration below
# SQL from each version to the next; never edit one.
MIGRATIONS = (
    # One table for files of runs, files of artifacts, and manifests; drop unused columns.
    """
    DROP VIEW files;
    CREATE TABLE files (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id INTEGER REFERENCES runs ON DELETE CASCADE,
        artifact_id INTEGER REFERENCES artifacts ON DELETE CASCADE,
        manifest INTEGER NOT NULL DEFAULT 0,
        name TEXT NOT NULL,
        digest TEXT,
        size_bytes INTEGER,
        reference TEXT,
        blob_id INTEGER REFERENCES blobs,
        uploaded_at REAL,
        CHECK ((run_id IS NULL) != (artifact_id IS NULL)),
        UNIQUE (run_id, name),
        UNIQUE (artifact_id, manifest, name)
    );
    INSERT INTO files (id, run_id, name, digest, size_bytes, blob_id, uploaded_at)
        SELECT run_files.id, run_id, name, md5, size_bytes, blob_id, uploaded_at
        FROM run_files LEFT JOIN blobs ON blobs.id = blob_id;
    INSERT INTO files (artifact_id, name, digest, size_bytes, reference, blob_id)
        SELECT artifact_id, name, digest, size_bytes, reference, blob_id FROM artifact_files;
    INSERT INTO files (artifact_id, manifest, name, digest, size_bytes, blob_id)
        SELECT artifacts.id, 1, 'wandb_manifest.json', manifest_md5, blobs.size_bytes, blobs.id
        FROM artifacts LEFT JOIN blobs ON blobs.id = manifest_blob_id
        WHERE manifest_blob_id IS NOT NULL OR manifest_md5 IS NOT NULL;
    CREATE INDEX files_blob ON files (blob_id);
    DROP TABLE run_files;
    DROP TABLE artifact_files;
    DROP TRIGGER artifact_deleted;
    DROP TRIGGER manifest_replaced;
    DROP TABLE released_blobs;
    DROP INDEX artifacts_manifest;
    ALTER TABLE runs DROP COLUMN interrupted;
    ALTER TABLE runs DROP COLUMN resuming;
    ALTER TABLE artifacts DROP COLUMN manifest_md5;
    ALTER TABLE artifacts DROP COLUMN manifest_blob_id;
    """,
    # A run's name and all other columns that its process sent, before another process began.
    "ALTER TABLE runs ADD COLUMN former TEXT;",
    # An index of rows by step; the text of a line is no longer in the record of its key.
    """
    ALTER TABLE lines RENAME TO old_lines;
    CREATE TABLE lines (
        run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        stream TEXT NOT NULL,
        number INTEGER NOT NULL,
        step NUMERIC,
        text TEXT NOT NULL,
        UNIQUE (run_id, stream, number)
    );
    INSERT INTO lines SELECT run_id, stream, number, row_step(stream, text), text FROM old_lines;
    DROP TABLE old_lines;
    CREATE INDEX lines_step ON lines (run_id, stream, step, number) WHERE step IS NOT NULL;
    """,
    # The names of deleted runs, which no other run may reuse.
    """
    CREATE TABLE deleted_runs (project_id INTEGER NOT NULL REFERENCES projects, name TEXT NOT NULL,
        PRIMARY KEY (project_id, name)) WITHOUT ROWID;
    CREATE TRIGGER run_name_kept AFTER DELETE ON runs
        BEGIN INSERT OR IGNORE INTO deleted_runs VALUES (OLD.project_id, OLD.name); END;
    """,
)
SCHEMA = OLDEST + len(MIGRATIONS)
Result = TypeVar("Result")
DATABASE = "backend.sqlite"  # its name in the data folder
BUSY_TIMEOUT_SECONDS = 30
FULL_SECONDS = 1.0  # how long the disk counts as full after a write failed for lack of space
MOST_TOGETHER = 500  # changes in one commit
WAL_BYTES = 64 * 1024 * 1024  # the WAL is truncated to this size after it grew


# The schema version and migrations. Only a process that holds the folder's lock, such as a server,
# may migrate: else tables would change under a running server of an older version. A newer file is
# refused.


def schema_of(connection: sqlite3.Connection) -> int:
    """Return the version of a database's tables; 0 if it has none."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_schema(folder: Path, version: int, migrating: bool = False) -> None:
    """Raise BackendError for a different version; accept an older one if `migrating`."""
    found = f"(schema {version}, this one's is {SCHEMA})"
    if version > SCHEMA:
        raise BackendError(
            f"{folder} was written by a newer deployer {found}",
            "update this deployer to the version that serves the folder",
        )
    if 0 < version < SCHEMA and (version < OLDEST or not migrating):
        raise BackendError(
            f"{folder} was written by an older deployer {found}",
            "deployer backend up --data ANOTHER_FOLDER, since that version was never released"
            if version < OLDEST
            else "deployer backend down, then deployer backend up, which brings it up to date",
        )


def migrate(connection: sqlite3.Connection) -> None:
    """Migrate the database to the newest version, one transaction for each step."""
    version = schema_of(connection)
    connection.create_function("row_step", 2, row_step)
    if version == 0:
        steps = [(SCHEMA, SCHEMA_FILE.read_text())]
    else:
        steps = list(enumerate(MIGRATIONS[version - OLDEST :], version + 1))
    for number, script in steps:
        connection.executescript(f"BEGIN;{script};PRAGMA user_version={number};COMMIT;")


@dataclass
class Change(Generic[Result]):
    """A pending write and the future for its result."""

    work: Callable[[Connection], Result]
    done: Future[Result] = field(default_factory=Future)
    result: Result | None = None
    error: Exception | None = None

    def apply(self, db: Connection) -> None:
        db.execute("SAVEPOINT change")
        try:
            self.result = self.work(db)
        except Exception as error:
            if not db.in_transaction:  # SQLite rolled back the whole transaction
                raise
            self.error = error
            db.execute("ROLLBACK TO change")
        db.execute("RELEASE change")

    def answer(self, error: BaseException | None = None) -> None:
        """Resolve the future; `error` is that of the commit."""
        if error or self.error:
            self.done.set_exception(error or self.error)
        else:
            self.done.set_result(self.result)  # type: ignore[arg-type]


class Database:
    """The backend's SQLite file in WAL mode."""

    def __init__(self, path: Path, *, migrating: bool = False) -> None:
        """Open the file; migrate an older one if `migrating`. Raise BackendError."""
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
        """Queue a write; the future has its result once it is on disk.

        `work` runs in the writer's thread and must not wait for anything.
        """
        change = Change(work)
        self._waiting.put(change)
        return change.done

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield the writing connection in a new transaction; an exception rolls it back.

        Joins a change, snapshot or transaction that is open in the same thread.
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
        """Yield a read-only connection that sees one state of the database throughout.

        Joins a change, snapshot or transaction that is open in the same thread.
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
        """Return True for the writer's connection, whose changes may still be rolled back."""
        return db is self._connection

    @property
    def full(self) -> bool:
        return self._full_at is not None and time.monotonic() - self._full_at < FULL_SECONDS

    @property
    def writing(self) -> bool:
        return self._writer.is_alive()

    @property
    def waiting(self) -> int:
        """Return the number of pending changes."""
        return self._waiting.qsize()

    def close(self) -> None:
        """Write pending changes, merge the WAL and close the file."""
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
    """Yield a read-only connection to a file of any version, even while it is served."""
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
