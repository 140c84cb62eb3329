"""Migrations: each entry brings the database to the next version, and none is ever edited."""

from __future__ import annotations

from deployer.backend.db.schema.later_migrations import LATER_MIGRATIONS

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
    # The bytes of files are rows of their own, so that files of the same content share them. What
    # nothing points to any more is noted by triggers, since it can go in several ways.
    """
    CREATE TABLE blobs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        user_id INTEGER NOT NULL REFERENCES users,
        md5 TEXT NOT NULL,
        size_bytes INTEGER NOT NULL,
        created_at REAL NOT NULL
    );
    CREATE INDEX blobs_content ON blobs (user_id, md5);
    INSERT INTO blobs (id, user_id, md5, size_bytes, created_at)
        SELECT files.id, runs.user_id, files.md5, files.size_bytes, files.uploaded_at
        FROM files JOIN runs ON runs.id = files.run_id WHERE files.uploaded_at IS NOT NULL;
    CREATE TABLE run_files (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        name TEXT NOT NULL,
        blob_id INTEGER REFERENCES blobs,
        uploaded_at REAL,
        UNIQUE (run_id, name)
    );
    INSERT INTO run_files (id, run_id, name, blob_id, uploaded_at)
        SELECT id, run_id, name, CASE WHEN uploaded_at IS NULL THEN NULL ELSE id END, uploaded_at
        FROM files;
    DROP TABLE files;
    CREATE INDEX run_files_blob ON run_files (blob_id);
    CREATE VIEW files AS SELECT run_files.*, blobs.md5, blobs.size_bytes
        FROM run_files LEFT JOIN blobs ON blobs.id = run_files.blob_id;

    CREATE TABLE artifact_collections (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        project_id INTEGER NOT NULL REFERENCES projects,
        name TEXT NOT NULL,
        type TEXT NOT NULL,
        description TEXT,
        tags TEXT NOT NULL DEFAULT '[]',
        next_version INTEGER NOT NULL DEFAULT 0,
        client_id TEXT,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        UNIQUE (project_id, name)
    );
    CREATE TABLE artifacts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        collection_id INTEGER NOT NULL REFERENCES artifact_collections ON DELETE CASCADE,
        user_id INTEGER NOT NULL REFERENCES users,
        run_id INTEGER REFERENCES runs ON DELETE SET NULL,
        version INTEGER,
        digest TEXT NOT NULL,
        description TEXT,
        metadata TEXT,
        tags TEXT NOT NULL DEFAULT '[]',
        wanted_aliases TEXT NOT NULL DEFAULT '[]',
        client_id TEXT,
        manifest_type TEXT NOT NULL DEFAULT 'FULL',
        manifest_md5 TEXT,
        manifest_blob_id INTEGER REFERENCES blobs,
        base_id INTEGER,
        history_step INTEGER,
        size_bytes INTEGER NOT NULL DEFAULT 0,
        file_count INTEGER NOT NULL DEFAULT 0,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        UNIQUE (collection_id, version)
    );
    CREATE INDEX artifacts_digest ON artifacts (collection_id, digest);
    CREATE INDEX artifacts_client ON artifacts (client_id);
    CREATE INDEX artifacts_pending ON artifacts (updated_at) WHERE version IS NULL;
    CREATE INDEX artifacts_run ON artifacts (run_id);
    CREATE INDEX artifacts_manifest ON artifacts (manifest_blob_id);
    CREATE TABLE artifact_files (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        artifact_id INTEGER NOT NULL REFERENCES artifacts ON DELETE CASCADE,
        name TEXT NOT NULL,
        digest TEXT NOT NULL,
        size_bytes INTEGER,
        reference TEXT,
        blob_id INTEGER REFERENCES blobs,
        UNIQUE (artifact_id, name)
    );
    CREATE INDEX artifact_files_blob ON artifact_files (blob_id);
    CREATE TABLE artifact_aliases (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        collection_id INTEGER NOT NULL REFERENCES artifact_collections ON DELETE CASCADE,
        artifact_id INTEGER NOT NULL REFERENCES artifacts ON DELETE CASCADE,
        alias TEXT NOT NULL,
        UNIQUE (collection_id, alias)
    );
    CREATE INDEX artifact_aliases_artifact ON artifact_aliases (artifact_id);
    CREATE TABLE artifact_runs (
        run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        artifact_id INTEGER NOT NULL REFERENCES artifacts ON DELETE CASCADE,
        role TEXT NOT NULL,
        PRIMARY KEY (run_id, artifact_id, role)
    ) WITHOUT ROWID;
    CREATE INDEX artifact_runs_artifact ON artifact_runs (artifact_id);

    CREATE TABLE released_blobs (blob_id INTEGER PRIMARY KEY);
    CREATE TRIGGER run_file_deleted AFTER DELETE ON run_files WHEN OLD.blob_id IS NOT NULL
        BEGIN INSERT OR IGNORE INTO released_blobs VALUES (OLD.blob_id); END;
    CREATE TRIGGER run_file_replaced AFTER UPDATE OF blob_id ON run_files
        WHEN OLD.blob_id IS NOT NULL AND OLD.blob_id IS NOT NEW.blob_id
        BEGIN INSERT OR IGNORE INTO released_blobs VALUES (OLD.blob_id); END;
    CREATE TRIGGER artifact_file_deleted AFTER DELETE ON artifact_files WHEN OLD.blob_id IS NOT NULL
        BEGIN INSERT OR IGNORE INTO released_blobs VALUES (OLD.blob_id); END;
    CREATE TRIGGER artifact_deleted AFTER DELETE ON artifacts WHEN OLD.manifest_blob_id IS NOT NULL
        BEGIN INSERT OR IGNORE INTO released_blobs VALUES (OLD.manifest_blob_id); END;
    CREATE TRIGGER manifest_replaced AFTER UPDATE OF manifest_blob_id ON artifacts
        WHEN OLD.manifest_blob_id IS NOT NULL AND OLD.manifest_blob_id IS NOT NEW.manifest_blob_id
        BEGIN INSERT OR IGNORE INTO released_blobs VALUES (OLD.manifest_blob_id); END;
    """,
    """
    CREATE TRIGGER artifact_file_replaced AFTER UPDATE OF blob_id ON artifact_files
        WHEN OLD.blob_id IS NOT NULL AND OLD.blob_id IS NOT NEW.blob_id
        BEGIN INSERT OR IGNORE INTO released_blobs VALUES (OLD.blob_id); END;
    """,
    # What is asked at each heartbeat, of sweeps with thousands of runs.
    """
    CREATE INDEX runs_sweep ON runs (sweep_id, state);
    CREATE INDEX runs_queued ON runs (sweep_id) WHERE queued = 1;
    """,
    # A process that names a run which has a history may go on with it or replace it.
    """
    ALTER TABLE runs ADD COLUMN undecided_lines INTEGER;
    ALTER TABLE runs ADD COLUMN first_offset INTEGER NOT NULL DEFAULT 0;
    """,
    # A type outlives its last collection.
    """
    CREATE TABLE artifact_types (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        project_id INTEGER NOT NULL REFERENCES projects,
        name TEXT NOT NULL,
        created_at REAL NOT NULL,
        UNIQUE (project_id, name)
    );
    INSERT INTO artifact_types (project_id, name, created_at)
        SELECT project_id, type, MIN(created_at) FROM artifact_collections
        GROUP BY project_id, type ORDER BY MIN(id);
    CREATE TRIGGER collection_made AFTER INSERT ON artifact_collections
        BEGIN INSERT OR IGNORE INTO artifact_types (project_id, name, created_at)
            VALUES (NEW.project_id, NEW.type, NEW.created_at); END;
    """,
    # What a supervisor saw of a run's process, which nobody else hears of before `wandb.init`.
    """
    ALTER TABLE attempts ADD COLUMN process_exit_code INTEGER;
    ALTER TABLE attempts ADD COLUMN output TEXT;
    """,
    *LATER_MIGRATIONS,
)
