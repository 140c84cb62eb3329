"""The version of a database's tables, and how an older one comes to the newest.

Only a process that holds the folder's lock, as a server does, migrates: else tables would change
under a running server of an older version. A newer file is refused.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from deployer.errors import BackendError

SCHEMA_FILE = Path(__file__).with_name("schema.sql")  # the newest tables
OLDEST = 14  # the version that the first step below starts from
MIGRATIONS: tuple[str, ...] = ()  # SQL from each version to the next; none is ever edited
SCHEMA = OLDEST + len(MIGRATIONS)


def schema_of(connection: sqlite3.Connection) -> int:
    """Return the version of a database's tables; 0 has none."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_schema(folder: Path, version: int, migrating: bool = False) -> None:
    """Raise BackendError for a version other than ours; an older one passes if `migrating`."""
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
    """Bring the database to the newest version, one transaction for each step."""
    version = schema_of(connection)
    if version == 0:
        steps = [(SCHEMA, SCHEMA_FILE.read_text())]
    else:
        steps = list(enumerate(MIGRATIONS[version - OLDEST :], version + 1))
    for number, script in steps:
        connection.executescript(f"BEGIN;{script};PRAGMA user_version={number};COMMIT;")
