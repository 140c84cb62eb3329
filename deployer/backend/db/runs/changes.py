"""Which runs of a sweep have changed since somebody looked: triggers number every change.

A number that was undone with its transaction is given out again: remember none that was not
committed.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from deployer.backend.db.database import Connection


@dataclass(frozen=True)
class Mark:
    """The number of a sweep's last change, and how many runs have left it."""

    revision: int
    removals: int


def mark_of(db: Connection, sweep_id: int) -> Mark:
    """Return how far a sweep's changes have come."""
    marks = "SELECT revision, removals FROM sweeps WHERE id = ?"
    return Mark(*db.execute(marks, (sweep_id,)).fetchone())


def changed_since(db: Connection, sweep_id: int, revision: int, columns: str) -> list[sqlite3.Row]:
    """Return `columns` of the runs that are newer or changed, oldest first; -1 means all."""
    found = f"SELECT {columns} FROM runs WHERE sweep_id = ? AND revision > ? ORDER BY id"
    return db.execute(found, (sweep_id, revision)).fetchall()
