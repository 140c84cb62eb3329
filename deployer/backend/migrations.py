"""The database's history: each entry brings it one version further, and none is ever edited."""

from __future__ import annotations

import sqlite3

MIGRATIONS = (
    """
    CREATE TABLE users (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        created_at REAL NOT NULL
    );
    CREATE TABLE keys (
        id INTEGER PRIMARY KEY,
        hash TEXT NOT NULL UNIQUE,
        user_id INTEGER NOT NULL REFERENCES users,
        sweep_id INTEGER REFERENCES sweeps,
        agent_name TEXT,
        created_at REAL NOT NULL
    );
    CREATE TABLE projects (
        id INTEGER PRIMARY KEY,
        entity TEXT NOT NULL,
        name TEXT NOT NULL,
        user_id INTEGER NOT NULL REFERENCES users,
        created_at REAL NOT NULL,
        UNIQUE (entity, name)
    );
    CREATE TABLE sweeps (
        id INTEGER PRIMARY KEY,
        project_id INTEGER NOT NULL REFERENCES projects,
        user_id INTEGER NOT NULL REFERENCES users,
        name TEXT NOT NULL,
        display_name TEXT,
        description TEXT,
        config TEXT NOT NULL,
        state TEXT NOT NULL,
        seed TEXT NOT NULL,
        expected INTEGER,
        request_key TEXT NOT NULL,
        stop_reason TEXT,
        controller TEXT,
        scheduler TEXT,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        UNIQUE (project_id, name)
    );
    CREATE INDEX sweeps_request ON sweeps (request_key);
    CREATE TABLE agents (
        id INTEGER PRIMARY KEY,
        sweep_id INTEGER NOT NULL REFERENCES sweeps,
        key_id INTEGER REFERENCES keys,
        name TEXT NOT NULL,
        host TEXT NOT NULL,
        created_at REAL NOT NULL,
        heartbeat_at REAL,
        ended_at REAL
    );
    CREATE INDEX agents_sweep ON agents (sweep_id);
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY,
        project_id INTEGER NOT NULL REFERENCES projects,
        user_id INTEGER NOT NULL REFERENCES users,
        name TEXT NOT NULL,
        sweep_id INTEGER REFERENCES sweeps,
        ordinal INTEGER,
        args TEXT,
        state TEXT NOT NULL,
        queued INTEGER NOT NULL DEFAULT 0,
        stop_requested_at REAL,
        preempting INTEGER NOT NULL DEFAULT 0,
        interrupted INTEGER NOT NULL DEFAULT 0,
        agent_id INTEGER REFERENCES agents,
        attempt INTEGER NOT NULL DEFAULT 1,
        deliveries INTEGER NOT NULL DEFAULT 0,
        reported INTEGER NOT NULL DEFAULT 0,
        resuming INTEGER NOT NULL DEFAULT 0,
        started_at REAL,
        vanished_at REAL,
        ended_at REAL,
        exit_code INTEGER,
        config TEXT NOT NULL DEFAULT '{}',
        summary TEXT NOT NULL DEFAULT '{}',
        tags TEXT NOT NULL DEFAULT '[]',
        display_name TEXT,
        group_name TEXT,
        job_type TEXT,
        commit_hash TEXT,
        host TEXT,
        program TEXT,
        description TEXT,
        notes TEXT,
        created_at REAL NOT NULL,
        heartbeat_at REAL,
        UNIQUE (project_id, name)
    );
    CREATE UNIQUE INDEX runs_ordinal ON runs (sweep_id, ordinal) WHERE ordinal IS NOT NULL;
    CREATE INDEX runs_agent ON runs (agent_id);
    CREATE TABLE attempts (
        run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        number INTEGER NOT NULL,
        agent_id INTEGER REFERENCES agents,
        assigned_at REAL NOT NULL,
        ended_at REAL,
        cause TEXT,
        exit_code INTEGER,
        PRIMARY KEY (run_id, number)
    ) WITHOUT ROWID;
    CREATE TABLE lines (
        run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        stream TEXT NOT NULL,
        number INTEGER NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (run_id, stream, number)
    ) WITHOUT ROWID;
    CREATE TABLE files (
        id INTEGER PRIMARY KEY,
        run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        name TEXT NOT NULL,
        token TEXT NOT NULL UNIQUE,
        size_bytes INTEGER,
        md5 TEXT,
        uploaded_at REAL,
        UNIQUE (run_id, name)
    );
    """,
    # `announced` says more than `interrupted`, which nobody reads any more.
    """
    ALTER TABLE sweeps ADD COLUMN healed_retries INTEGER;
    ALTER TABLE runs ADD COLUMN announced TEXT;
    UPDATE runs SET announced = 'interrupted' WHERE interrupted;
    ALTER TABLE runs ADD COLUMN forgiven INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE keys ADD COLUMN own INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX keys_agent ON keys (sweep_id, agent_name);
    """,
)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the database to the newest version, one transaction for each step."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        connection.executescript(f"BEGIN;{script};PRAGMA user_version={number};COMMIT;")
