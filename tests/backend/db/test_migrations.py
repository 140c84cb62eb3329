"""A database of every older version opens in this one and loses nothing; a newer one is refused."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from deployer.backend.db.agents import Agent
from deployer.backend.db.database import check_schema, select
from deployer.backend.db.files import File
from deployer.backend.db.runs.attempts import Attempt
from deployer.backend.db.runs.runs import Run
from deployer.backend.db.schema.migrations import MIGRATIONS
from deployer.backend.db.schema.schema import SCHEMA, migrate
from deployer.backend.db.store import Store
from deployer.backend.db.sweeps import Sweep
from deployer.errors import BackendError

# What a released version has written is there: its step is never edited.
STEPS = [
    "3a3341124934",
    "4fd8d34d1538",
    "55970ba4de14",
    "97f818f9163d",
    "3b227ec4ff58",
    "2029c71d459c",
    "7e8d230f105b",
    "3267347d7033",
    "2586c0621d4e",
    "0ba2e15fab77",
]
CONTENT = """
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
"""
FIRST_FILES = """
    INSERT INTO files (id, run_id, name, token, size_bytes, md5, uploaded_at)
    VALUES (3, 1, 'here', 't', 5, 'm', 1.0), (7, 1, 'same', 'u', 5, 'm', 2.0),
           (8, 1, 'never', 'v', NULL, NULL, NULL);
"""
FILES = """
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
"""
FIRST_WITH_BLOBS = 3
GONE = {"token"}  # of a file: its address is signed since, not drawn


def write_version(path: Path, version: int) -> dict[str, list[dict[str, Any]]]:
    """Write a database as a version of the past has, and return all rows of all its tables."""
    with sqlite3.connect(path, isolation_level=None) as db:
        for number, script in enumerate(MIGRATIONS[:version], 1):
            db.executescript(f"{script};PRAGMA user_version={number};")
        db.executescript(CONTENT + (FILES if version >= FIRST_WITH_BLOBS else FIRST_FILES))
        db.execute("PRAGMA journal_mode=WAL")
        found = read_tables(db)
    db.close()
    return found


def read_tables(db: sqlite3.Connection) -> dict[str, list[dict[str, Any]]]:
    db.row_factory = sqlite3.Row
    names = (
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sql%'"
    )
    return {
        name: [dict(row) for row in db.execute(f"SELECT * FROM {name}")]
        for (name,) in db.execute(names).fetchall()
    }


@pytest.mark.parametrize("version", range(1, SCHEMA))
def test_what_an_older_version_wrote_is_all_there(tmp_path: Path, version: int) -> None:
    path = tmp_path / "backend.db"
    before = write_version(path, version)
    store = Store(path, migrating=True)
    with store.transaction() as db:
        after = read_tables(db)
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        assert (len(select(db, Sweep, "sweeps")), len(select(db, Run, "runs"))) == (1, 3)
        assert (len(select(db, Agent, "agents")), len(select(db, Attempt, "attempts"))) == (1, 2)
    store.close()
    for table, rows in before.items():
        for old, new in zip(rows, after[table], strict=True):
            assert old.keys() - new.keys() <= GONE
            assert {name: new[name] for name in old.keys() - GONE} == {
                name: value for name, value in old.items() if name not in GONE
            }


def test_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "backend.db"
    write_version(path, 1)
    store = Store(path, migrating=True)
    with store.transaction() as db:
        (sweep,) = select(db, Sweep, "sweeps")
        run, *_ = select(db, Run, "runs ORDER BY id")
        files = select(db, File, "files ORDER BY id")
    store.close()
    assert (sweep.retries, sweep.healed_retries) == (4, None)
    assert run.announced == "interrupted"
    assert files == [
        File(3, 1, "here", 3, 1.0, "m", 5),
        File(7, 1, "same", 7, 2.0, "m", 5),
        File(8, 1, "never", None, None, None, None),
    ]
    assert files[1].blob_id == 7  # the file's name on disk, where the first version put it


def test_a_step_that_was_released_is_never_edited() -> None:
    found = [hashlib.sha256(script.encode()).hexdigest()[:12] for script in MIGRATIONS]
    assert found[: len(STEPS)] == STEPS


@pytest.mark.parametrize("migrating", [True, False])
def test_a_newer_version_is_refused_in_a_sentence(tmp_path: Path, migrating: bool) -> None:
    path = tmp_path / "backend.db"
    with sqlite3.connect(path) as db:
        migrate(db)
        db.execute(f"PRAGMA user_version={SCHEMA + 1}")
    db.close()
    with pytest.raises(BackendError) as refused:
        Store(path, migrating=migrating)
    assert refused.value.message == (
        f"{tmp_path} was written by a newer deployer (schema {SCHEMA + 1}, this one's is {SCHEMA})"
    )


def test_who_only_reads_refuses_an_older_version(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="was written by an older deployer"):
        check_schema(tmp_path, SCHEMA - 1)
    check_schema(tmp_path, SCHEMA - 1, migrating=True)
