"""The version of a database's tables, and how an older one comes to the newest."""

from __future__ import annotations

import sqlite3

from deployer.backend.db.schema.migrations import MIGRATIONS

SCHEMA = len(MIGRATIONS)


def schema_of(connection: sqlite3.Connection) -> int:
    """Return the version of a database's tables; 0 has none."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the database to the newest version, one transaction for each step."""
    version = schema_of(connection)
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        connection.executescript(f"BEGIN;{script};PRAGMA user_version={number};COMMIT;")
