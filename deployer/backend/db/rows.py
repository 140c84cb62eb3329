"""Rows as frozen records: the statements that most tables need, and `select` for the rest.

A record's fields are columns of its table. Column names come from our code, never from a request;
values are always bound.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar

from deployer.backend.request import not_found

Connection = sqlite3.Connection


@dataclass(frozen=True)
class Record:
    """A row of `table`."""

    table: ClassVar[str]

    @classmethod
    @cache
    def columns(cls) -> str:
        return ", ".join(field.name for field in dataclasses.fields(cls))


@dataclass(frozen=True)
class TableRow(Record):
    """A row with a numeric id; `noun` is its name in refusals."""

    noun: ClassVar[str]

    id: int


AnyRecord = TypeVar("AnyRecord", bound=Record)
AnyRow = TypeVar("AnyRow", bound=TableRow)


def select(db: Connection, kind: type[AnyRecord], tail: str, *values: Any) -> list[AnyRecord]:
    """Return records; `tail` is the SQL after the table's name, `WHERE … ORDER BY …`."""
    rows = db.execute(f"SELECT {kind.columns()} FROM {kind.table} {tail}", values)
    return [kind(*row) for row in rows]


def select_one(db: Connection, kind: type[AnyRecord], tail: str, *values: Any) -> AnyRecord | None:
    return next(iter(select(db, kind, f"{tail} LIMIT 1", *values)), None)


def find_all(
    db: Connection, kind: type[AnyRecord], order: str = "id", /, **columns: Any
) -> list[AnyRecord]:
    """Return the records with these column values; None matches NULL."""
    return select(db, kind, f"{_where(columns)} ORDER BY {order}", *columns.values())


def find(
    db: Connection, kind: type[AnyRecord], order: str = "1", /, **columns: Any
) -> AnyRecord | None:
    """Return the first matching record, or None; by default in order of the first column."""
    return select_one(db, kind, f"{_where(columns)} ORDER BY {order}", *columns.values())


def _where(columns: Iterable[str]) -> str:
    return "WHERE " + (" AND ".join(f"{name} IS ?" for name in columns) or "TRUE")


def get(db: Connection, kind: type[AnyRow], row_id: int | None) -> AnyRow:
    row = find(db, kind, id=row_id)
    if row is None:
        raise not_found(kind.noun)
    return row


def insert(db: Connection, kind: type[AnyRow], **columns: Any) -> AnyRow:
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    statement = f"INSERT INTO {kind.table} ({names}) VALUES ({marks})"
    return get(db, kind, db.execute(statement, tuple(columns.values())).lastrowid)


def update(db: Connection, row: TableRow, **columns: Any) -> None:
    names = ", ".join(f"{name} = ?" for name in columns)
    db.execute(f"UPDATE {row.table} SET {names} WHERE id = ?", (*columns.values(), row.id))


def change(db: Connection, row: AnyRow, **columns: Any) -> AnyRow:
    update(db, row, **columns)
    return get(db, type(row), row.id)


def delete(db: Connection, row: TableRow) -> None:
    db.execute(f"DELETE FROM {row.table} WHERE id = ?", (row.id,))
