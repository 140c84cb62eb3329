"""The database file: one connection, one lock, every change in one `BEGIN IMMEDIATE` transaction.

Only a process that holds the folder's lock, as a server does, brings an older file up to date: else
tables would change under a running server of an older version. A newer file is refused.
Other modules get the open connection from `Store.transaction()` and write their own SQL; none
opens the file by itself. Reads are transactions too, so that a request sees one state throughout.
"""

from __future__ import annotations

import dataclasses
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from deployer.backend.db.schema import SCHEMA, migrate, schema_of
from deployer.backend.refusal import is_full
from deployer.errors import BackendError

Connection = sqlite3.Connection
DATABASE = "backend.sqlite"  # its name in the data folder

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")

BUSY_TIMEOUT_SECONDS = 30
FULL_SECONDS = 30.0  # so long after a write that found no room, the disk counts as full


class Store:
    """The backend's SQLite file in WAL mode."""

    def __init__(self, path: Path, *, migrating: bool = False) -> None:
        """Open the file; an older one is brought up to date if `migrating`. Raise BackendError."""
        self.path = path
        self._full_at: float | None = None
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_SECONDS
        )
        self._connection.row_factory = sqlite3.Row
        try:
            check_schema(path.parent, schema_of(self._connection), migrating)
        except BackendError:
            self._connection.close()
            raise
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute("PRAGMA foreign_keys=ON")
        migrate(self._connection)
        path.chmod(0o600)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield the connection inside one transaction; an exception undoes all of it.

        A transaction inside another of the same thread joins it.
        """
        with self._lock:
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.commit()
            except BaseException as error:
                self._note_full(error)
                self._connection.rollback()
                raise

    def _note_full(self, error: BaseException) -> None:
        if is_full(error):
            self._full_at = time.monotonic()

    @property
    def full(self) -> bool:
        """Tell whether a recent write found the disk full."""
        return self._full_at is not None and time.monotonic() - self._full_at < FULL_SECONDS

    def close(self) -> None:
        """Close the file; the WAL is folded back into it."""
        with self._lock:
            self._connection.close()


@contextmanager
def read_only(path: Path) -> Iterator[Connection]:
    """Yield a connection that changes nothing, to a file of any version, served or not."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        yield connection
    finally:
        connection.close()


def check_schema(folder: Path, version: int, migrating: bool = False) -> None:
    """Raise BackendError for a version other than ours; an older one passes if `migrating`."""
    if version > SCHEMA:
        raise BackendError(
            f"{folder} was written by a newer deployer (schema {version}, this one's is {SCHEMA})",
            "update this deployer to the version that serves the folder",
        )
    if 0 < version < SCHEMA and not migrating:
        raise BackendError(
            f"{folder} was written by an older deployer (schema {version}, this one's is {SCHEMA})",
            "deployer backend down, then deployer backend up, which brings it up to date",
        )


@cache
def _columns(record: type[DataclassInstance]) -> str:
    return ", ".join(field.name for field in dataclasses.fields(record))


def select(db: Connection, record: type[R], tail: str, values: Iterable[Any] = ()) -> list[R]:
    """Return rows as `record`s, frozen dataclasses whose fields are columns.

    `tail` is `<table> WHERE … ORDER BY …`.
    """
    rows = db.execute(f"SELECT {_columns(record)} FROM {tail}", tuple(values))
    return [record(*row) for row in rows]


def select_one(db: Connection, record: type[R], tail: str, *values: Any) -> R | None:
    """Return the first row as a record, or None."""
    rows = select(db, record, f"{tail} LIMIT 1", values)
    return rows[0] if rows else None


def update(db: Connection, table: str, row_id: int, **changes: Any) -> None:
    """Set columns of one row."""
    names = ", ".join(f"{name} = ?" for name in changes)
    db.execute(f"UPDATE {table} SET {names} WHERE id = ?", (*changes.values(), row_id))


def insert(db: Connection, table: str, **values: Any) -> int:
    """Insert one row and return its id."""
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    cursor = db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))
    return cursor.lastrowid or 0


def delete(db: Connection, table: str, row_id: int) -> None:
    """Delete one row."""
    db.execute(f"DELETE FROM {table} WHERE id = ?", (row_id,))
