"""The version of a database's tables, and how an older one comes to the newest.

Only a process that holds the folder's lock, as a server does, migrates: else tables would change
under a running server of an older version. A newer file is refused.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from deployer.backend.db.lines import row_step
from deployer.errors import BackendError

SCHEMA_FILE = Path(__file__).with_name("schema.sql")  # the newest tables
OLDEST = 14  # the version that the first step below starts from
# SQL from each version to the next; none is ever edited.
MIGRATIONS = (
    # One table for files of runs, files of artifacts, and manifests; columns that nobody reads go.
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
    # What a run was called, and all else that its process said of itself, before another one began.
    "ALTER TABLE runs ADD COLUMN former TEXT;",
    # Rows are found by their step; the text of a line is no longer in the record of its key.
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
    # The names of deleted runs, which no other run has.
    """
    CREATE TABLE deleted_runs (project_id INTEGER NOT NULL REFERENCES projects, name TEXT NOT NULL,
        PRIMARY KEY (project_id, name)) WITHOUT ROWID;
    CREATE TRIGGER run_name_kept AFTER DELETE ON runs
        BEGIN INSERT OR IGNORE INTO deleted_runs VALUES (OLD.project_id, OLD.name); END;
    """,
)
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
    connection.create_function("row_step", 2, row_step)
    if version == 0:
        steps = [(SCHEMA, SCHEMA_FILE.read_text())]
    else:
        steps = list(enumerate(MIGRATIONS[version - OLDEST :], version + 1))
    for number, script in steps:
        connection.executescript(f"BEGIN;{script};PRAGMA user_version={number};COMMIT;")
