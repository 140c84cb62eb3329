-- The newest tables. A time is in seconds since the epoch, a list or a mapping is JSON text.

-- People -------------------------------------------------------------------------------------------

CREATE TABLE users (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at REAL NOT NULL
);

-- A user tells keys apart by their labels. An agent's key is of one sweep; `node` is where its pod
-- is, which its supervisor tells before there is an agent.
CREATE TABLE keys (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    user_id INTEGER NOT NULL REFERENCES users,
    label TEXT NOT NULL DEFAULT '',
    own INTEGER NOT NULL DEFAULT 0,
    sweep_id INTEGER REFERENCES sweeps,
    agent_name TEXT,
    node TEXT NOT NULL DEFAULT '',
    created_at REAL NOT NULL
);
CREATE INDEX keys_agent ON keys (sweep_id, agent_name);

-- Who is signed in to the page stays so when the server is started again.
CREATE TABLE sessions (hash TEXT PRIMARY KEY, key_hash TEXT NOT NULL, ends_at REAL NOT NULL);

-- Sweeps and runs ----------------------------------------------------------------------------------

CREATE TABLE projects (
    id INTEGER PRIMARY KEY,
    entity TEXT NOT NULL,
    name TEXT NOT NULL,
    user_id INTEGER NOT NULL REFERENCES users,
    created_at REAL NOT NULL,
    UNIQUE (entity, name)
);

-- `revision` counts the changes of its runs, `removals` the runs that went. Below `first_free` every
-- ordinal has a run.
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
    first_free INTEGER NOT NULL DEFAULT 0,
    healed_retries INTEGER,
    request_key TEXT NOT NULL,
    stop_reason TEXT,
    controller TEXT,
    scheduler TEXT,
    revision INTEGER NOT NULL DEFAULT 0,
    removals INTEGER NOT NULL DEFAULT 0,
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
    node TEXT NOT NULL DEFAULT '',
    created_at REAL NOT NULL,
    heartbeat_at REAL,
    ended_at REAL
);
CREATE INDEX agents_sweep ON agents (sweep_id);

-- `revision` is the sweep's when this run last changed, so that only changed runs are read again.
-- `undecided_lines` and `first_offset` are of a process that names a run with a history, which
-- it may go on with or replace. `apart` names the runs of other processes that logged under this one's id.
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
    announced TEXT,
    forgiven INTEGER NOT NULL DEFAULT 0,
    agent_id INTEGER REFERENCES agents,
    attempt INTEGER NOT NULL DEFAULT 1,
    deliveries INTEGER NOT NULL DEFAULT 0,
    reported INTEGER NOT NULL DEFAULT 0,
    undecided_lines INTEGER,
    former TEXT,
    first_offset INTEGER NOT NULL DEFAULT 0,
    apart TEXT NOT NULL DEFAULT '[]',
    revision INTEGER NOT NULL DEFAULT 0,
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
-- What is asked at each heartbeat and each request for work does not grow with the runs.
CREATE INDEX runs_agent ON runs (agent_id, state);
CREATE INDEX runs_sweep ON runs (sweep_id, state);
CREATE INDEX runs_queued ON runs (sweep_id) WHERE queued = 1;
CREATE INDEX runs_active ON runs (state) WHERE state IN ('pending', 'running', 'preempting');
CREATE INDEX runs_of_sweep ON runs (sweep_id, created_at);
CREATE INDEX runs_of_project ON runs (project_id, created_at);
CREATE INDEX runs_revised ON runs (sweep_id, revision);

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

-- The processes of deleted runs may go on: no other run ever has such a name.
CREATE TABLE deleted_runs (
    project_id INTEGER NOT NULL REFERENCES projects,
    name TEXT NOT NULL,
    PRIMARY KEY (project_id, name)
) WITHOUT ROWID;
CREATE TRIGGER run_name_kept AFTER DELETE ON runs
    BEGIN INSERT OR IGNORE INTO deleted_runs VALUES (OLD.project_id, OLD.name); END;

-- `last_step` is how far an attempt came: one that is killed at the same step each time is given up.
CREATE TABLE attempts (
    run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    number INTEGER NOT NULL,
    agent_id INTEGER REFERENCES agents,
    assigned_at REAL NOT NULL,
    ended_at REAL,
    cause TEXT,
    exit_code INTEGER,
    process_exit_code INTEGER,
    output TEXT,
    last_step REAL,
    PRIMARY KEY (run_id, number)
) WITHOUT ROWID;

-- History, events and console. A row of history or events has the step by which it is found, 0 if
-- the line has none; other lines have NULL. WITHOUT ROWID, comparing keys would read whole texts.
CREATE TABLE lines (
    run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    stream TEXT NOT NULL,
    number INTEGER NOT NULL,
    step NUMERIC,
    text TEXT NOT NULL,
    UNIQUE (run_id, stream, number)
);
CREATE INDEX lines_step ON lines (run_id, stream, step, number) WHERE step IS NOT NULL;

-- Files and artifacts ------------------------------------------------------------------------------

-- The bytes of files: those of the same content share them.
CREATE TABLE blobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users,
    md5 TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    created_at REAL NOT NULL
);
CREATE INDEX blobs_content ON blobs (user_id, md5);

-- Of a run, of an artifact's version, or with `manifest` a version's manifest.
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
CREATE INDEX files_blob ON files (blob_id);

-- A type outlives its last collection.
CREATE TABLE artifact_types (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id INTEGER NOT NULL REFERENCES projects,
    name TEXT NOT NULL,
    created_at REAL NOT NULL,
    UNIQUE (project_id, name)
);

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
CREATE TRIGGER collection_made AFTER INSERT ON artifact_collections
    BEGIN INSERT OR IGNORE INTO artifact_types (project_id, name, created_at)
        VALUES (NEW.project_id, NEW.type, NEW.created_at); END;
CREATE TRIGGER collection_moved AFTER UPDATE OF type ON artifact_collections
    BEGIN INSERT OR IGNORE INTO artifact_types (project_id, name, created_at)
        VALUES (NEW.project_id, NEW.type, NEW.updated_at); END;

-- A version that is not committed has no number.
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
