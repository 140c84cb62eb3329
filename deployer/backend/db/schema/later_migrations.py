"""The migrations that follow those of `migrations`; none is ever edited."""

from __future__ import annotations

LATER_MIGRATIONS = (
    # What a request for work, the end of a run and the upkeep ask does not grow with the runs.
    """
    ALTER TABLE sweeps ADD COLUMN first_free INTEGER NOT NULL DEFAULT 0;
    CREATE TRIGGER run_deleted AFTER DELETE ON runs WHEN OLD.ordinal IS NOT NULL
        BEGIN UPDATE sweeps SET first_free = MIN(first_free, OLD.ordinal)
            WHERE id = OLD.sweep_id; END;
    CREATE TRIGGER run_renumbered AFTER UPDATE OF sweep_id, ordinal ON runs
        WHEN OLD.ordinal IS NOT NULL
        BEGIN UPDATE sweeps SET first_free = MIN(first_free, OLD.ordinal)
            WHERE id = OLD.sweep_id; END;
    DROP INDEX runs_agent;
    CREATE INDEX runs_agent ON runs (agent_id, state);
    CREATE INDEX runs_of_sweep ON runs (sweep_id, created_at);
    CREATE INDEX runs_of_project ON runs (project_id, created_at);
    CREATE INDEX runs_active ON runs (state)
        WHERE state IN ('pending', 'running', 'preempting');
    """,
    # Each change of a run has a number: nobody reads ten thousand runs for the one that changed.
    """
    ALTER TABLE sweeps ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE sweeps ADD COLUMN removals INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE runs ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX runs_revised ON runs (sweep_id, revision);
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
    """,
    # A user tells keys apart by what each is for.
    """
    ALTER TABLE keys ADD COLUMN label TEXT NOT NULL DEFAULT '';
    """,
    # How far an attempt came: one that is killed at the same step each time is given up.
    """
    ALTER TABLE attempts ADD COLUMN last_step REAL;
    """,
    # Who is signed in to the page stays so when the server is started again.
    """
    CREATE TABLE sessions (hash TEXT PRIMARY KEY, key_hash TEXT NOT NULL, ends_at REAL NOT NULL);
    """,
    # Where an agent's pod is: told with its supervisor's key, before there is an agent.
    """
    ALTER TABLE keys ADD COLUMN node TEXT NOT NULL DEFAULT '';
    ALTER TABLE agents ADD COLUMN node TEXT NOT NULL DEFAULT '';
    """,
    # One run is one process: what others log under its id is kept apart, in runs of their own.
    """
    ALTER TABLE runs ADD COLUMN apart TEXT NOT NULL DEFAULT '[]';
    """,
    # A type is made, too, when a collection that is there gets it.
    """
    INSERT OR IGNORE INTO artifact_types (project_id, name, created_at)
        SELECT project_id, type, updated_at FROM artifact_collections;
    CREATE TRIGGER collection_moved AFTER UPDATE OF type ON artifact_collections
        BEGIN INSERT OR IGNORE INTO artifact_types (project_id, name, created_at)
            VALUES (NEW.project_id, NEW.type, NEW.updated_at); END;
    """,
)
