-- What version 14 of the database has written; it is never edited.
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
    , own INTEGER NOT NULL DEFAULT 0, label TEXT NOT NULL DEFAULT '', node TEXT NOT NULL DEFAULT '');
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
        updated_at REAL NOT NULL, healed_retries INTEGER, first_free INTEGER NOT NULL DEFAULT 0, revision INTEGER NOT NULL DEFAULT 0, removals INTEGER NOT NULL DEFAULT 0,
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
    , node TEXT NOT NULL DEFAULT '');
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
        heartbeat_at REAL, announced TEXT, forgiven INTEGER NOT NULL DEFAULT 0, undecided_lines INTEGER, first_offset INTEGER NOT NULL DEFAULT 0, revision INTEGER NOT NULL DEFAULT 0, apart TEXT NOT NULL DEFAULT '[]',
        UNIQUE (project_id, name)
    );
CREATE UNIQUE INDEX runs_ordinal ON runs (sweep_id, ordinal) WHERE ordinal IS NOT NULL;
CREATE TABLE attempts (
        run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        number INTEGER NOT NULL,
        agent_id INTEGER REFERENCES agents,
        assigned_at REAL NOT NULL,
        ended_at REAL,
        cause TEXT,
        exit_code INTEGER, process_exit_code INTEGER, output TEXT, last_step REAL,
        PRIMARY KEY (run_id, number)
    ) WITHOUT ROWID;
CREATE TABLE lines (
        run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        stream TEXT NOT NULL,
        number INTEGER NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (run_id, stream, number)
    ) WITHOUT ROWID;
CREATE INDEX keys_agent ON keys (sweep_id, agent_name);
CREATE TABLE blobs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        user_id INTEGER NOT NULL REFERENCES users,
        md5 TEXT NOT NULL,
        size_bytes INTEGER NOT NULL,
        created_at REAL NOT NULL
    );
CREATE INDEX blobs_content ON blobs (user_id, md5);
CREATE TABLE run_files (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        name TEXT NOT NULL,
        blob_id INTEGER REFERENCES blobs,
        uploaded_at REAL,
        UNIQUE (run_id, name)
    );
CREATE INDEX run_files_blob ON run_files (blob_id);
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
CREATE INDEX runs_sweep ON runs (sweep_id, state);
CREATE INDEX runs_queued ON runs (sweep_id) WHERE queued = 1;
CREATE TABLE artifact_types (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        project_id INTEGER NOT NULL REFERENCES projects,
        name TEXT NOT NULL,
        created_at REAL NOT NULL,
        UNIQUE (project_id, name)
    );
CREATE INDEX runs_agent ON runs (agent_id, state);
CREATE INDEX runs_of_sweep ON runs (sweep_id, created_at);
CREATE INDEX runs_of_project ON runs (project_id, created_at);
CREATE INDEX runs_active ON runs (state)
        WHERE state IN ('pending', 'running', 'preempting');
CREATE INDEX runs_revised ON runs (sweep_id, revision);
CREATE TABLE sessions (hash TEXT PRIMARY KEY, key_hash TEXT NOT NULL, ends_at REAL NOT NULL);
CREATE VIEW files AS SELECT run_files.*, blobs.md5, blobs.size_bytes
        FROM run_files LEFT JOIN blobs ON blobs.id = run_files.blob_id;
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
CREATE TRIGGER artifact_file_replaced AFTER UPDATE OF blob_id ON artifact_files
        WHEN OLD.blob_id IS NOT NULL AND OLD.blob_id IS NOT NEW.blob_id
        BEGIN INSERT OR IGNORE INTO released_blobs VALUES (OLD.blob_id); END;
CREATE TRIGGER collection_made AFTER INSERT ON artifact_collections
        BEGIN INSERT OR IGNORE INTO artifact_types (project_id, name, created_at)
            VALUES (NEW.project_id, NEW.type, NEW.created_at); END;
CREATE TRIGGER run_deleted AFTER DELETE ON runs WHEN OLD.ordinal IS NOT NULL
        BEGIN UPDATE sweeps SET first_free = MIN(first_free, OLD.ordinal)
            WHERE id = OLD.sweep_id; END;
CREATE TRIGGER run_renumbered AFTER UPDATE OF sweep_id, ordinal ON runs
        WHEN OLD.ordinal IS NOT NULL
        BEGIN UPDATE sweeps SET first_free = MIN(first_free, OLD.ordinal)
            WHERE id = OLD.sweep_id; END;
CREATE TRIGGER run_made AFTER INSERT ON runs WHEN NEW.sweep_id IS NOT NULL
        BEGIN
            UPDATE sweeps SET revision = revision + 1 WHERE id = NEW.sweep_id;
            UPDATE runs SET revision = (SELECT revision FROM sweeps WHERE id = NEW.sweep_id)
                WHERE id = NEW.id;
        END;
CREATE TRIGGER run_changed AFTER UPDATE OF sweep_id, args, state, stop_requested_at, attempt,
            started_at, config, summary, heartbeat_at ON runs WHEN NEW.sweep_id IS NOT NULL
        BEGIN
            UPDATE sweeps SET revision = revision + 1 WHERE id = NEW.sweep_id;
            UPDATE runs SET revision = (SELECT revision FROM sweeps WHERE id = NEW.sweep_id)
                WHERE id = NEW.id;
        END;
CREATE TRIGGER run_left AFTER UPDATE OF sweep_id ON runs
        WHEN OLD.sweep_id IS NOT NULL AND OLD.sweep_id IS NOT NEW.sweep_id
        BEGIN UPDATE sweeps SET removals = removals + 1 WHERE id = OLD.sweep_id; END;
CREATE TRIGGER run_gone AFTER DELETE ON runs WHEN OLD.sweep_id IS NOT NULL
        BEGIN UPDATE sweeps SET removals = removals + 1 WHERE id = OLD.sweep_id; END;
CREATE TRIGGER collection_moved AFTER UPDATE OF type ON artifact_collections
        BEGIN INSERT OR IGNORE INTO artifact_types (project_id, name, created_at)
            VALUES (NEW.project_id, NEW.type, NEW.updated_at); END;

INSERT INTO users (id, name, created_at) VALUES (1, 'ada', 0);
INSERT INTO keys (id, hash, user_id, created_at) VALUES (1, 'h', 1, 0);
INSERT INTO projects (id, user_id, entity, name, created_at) VALUES (1, 1, 'ada', 'p', 0);
INSERT INTO sweeps (id, project_id, user_id, name, config, state, seed, request_key,
                    created_at, updated_at)
VALUES (1, 1, 1, 's', 'method: grid
retries: 4
parameters: {x: {values: [1, 2, 3]}}
', 'RUNNING', 's', 'k', 0, 0);
INSERT INTO keys (id, hash, user_id, sweep_id, agent_name, created_at)
VALUES (2, 'i', 1, 1, 'a-1', 0);
INSERT INTO agents (id, sweep_id, key_id, name, host, created_at)
VALUES (1, 1, 2, 'a-1', 'h', 0);
INSERT INTO runs (id, project_id, user_id, name, sweep_id, ordinal, args, state, interrupted,
                  agent_id, config, summary, created_at)
VALUES (1, 1, 1, 'r', 1, 0, '{"x": 1}', 'preempted', 1, 1, '{}', '{"loss": NaN}', 0),
       (2, 1, 1, 'q', 1, 1, '{"x": 2}', 'finished', 0, 1, '{}', '{"loss": 0.5}', 0),
       (3, 1, 1, 'alone', NULL, NULL, NULL, 'running', 0, NULL, '{}', '{}', 0);
INSERT INTO attempts (run_id, number, agent_id, assigned_at, cause)
VALUES (1, 1, 1, 0.0, 'interrupted'), (2, 1, 1, 0.0, 'finished');
INSERT INTO lines (run_id, stream, number, text)
VALUES (1, 'history', 0, '{"loss": NaN}'), (2, 'output', 0, 'said');
INSERT INTO blobs (id, user_id, md5, size_bytes, created_at) VALUES (3, 1, 'm', 5, 1.0);
INSERT INTO run_files (id, run_id, name, blob_id, uploaded_at)
VALUES (3, 1, 'here', 3, 1.0), (8, 1, 'never', NULL, NULL);
INSERT INTO artifact_collections (id, project_id, name, type, next_version, created_at,
                                  updated_at)
VALUES (1, 1, 'model', 'weights', 1, 0, 0);
INSERT INTO artifacts (id, collection_id, user_id, run_id, version, digest, manifest_blob_id,
                       created_at, updated_at)
VALUES (1, 1, 1, 2, 0, 'd', 3, 0, 0);
INSERT INTO artifact_files (artifact_id, name, digest, blob_id) VALUES (1, 'f', 'm', 3);
INSERT INTO artifact_aliases (collection_id, artifact_id, alias) VALUES (1, 1, 'latest');
INSERT INTO artifact_runs (run_id, artifact_id, role) VALUES (2, 1, 'output');

PRAGMA user_version = 14;
