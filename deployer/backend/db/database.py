"""Rows as frozen records.

Other modules get an open connection from `Store` and write their own SQL; none opens the file.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

Connection = sqlite3.Connection
DATABASE = "backend.sqlite"  # its name in the data folder

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")


@contextmanager
def read_only(path: Path) -> Iterator[Connection]:
    """Yield a connection that changes nothing, to a file of any version, served or not."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        yield connection
    finally:
        connection.close()


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
