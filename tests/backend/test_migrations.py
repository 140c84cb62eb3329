"""A database that an older version wrote opens in this one, and loses nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from deployer.backend.db.database import select
from deployer.backend.db.files import File
from deployer.backend.db.migrations import MIGRATIONS
from deployer.backend.db.runs import Run
from deployer.backend.db.store import Store
from deployer.backend.db.sweeps import Sweep

FIRST_CONTENT = """
    INSERT INTO users (id, name, created_at) VALUES (1, 'ada', 0);
    INSERT INTO projects (id, user_id, entity, name, created_at) VALUES (1, 1, 'ada', 'p', 0);
    INSERT INTO sweeps (id, project_id, user_id, name, config, state, seed, request_key,
                        created_at, updated_at)
    VALUES (1, 1, 1, 's', 'method: grid
retries: 4
parameters: {x: {values: [1]}}
', 'RUNNING', 's', 'k', 0, 0);
    INSERT INTO runs (id, project_id, user_id, name, sweep_id, state, interrupted, created_at)
    VALUES (1, 1, 1, 'r', 1, 'preempted', 1, 0);
    INSERT INTO files (id, run_id, name, token, size_bytes, md5, uploaded_at)
    VALUES (3, 1, 'here', 't', 5, 'm', 1.0), (7, 1, 'same', 'u', 5, 'm', 2.0),
           (8, 1, 'never', 'v', NULL, NULL, NULL);
"""


def test_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "backend.db"
    connection = sqlite3.connect(path)
    connection.executescript(MIGRATIONS[0] + "PRAGMA user_version=1;" + FIRST_CONTENT)
    connection.close()

    store = Store(path, migrating=True)
    with store.transaction() as db:
        (sweep,) = select(db, Sweep, "sweeps")
        (run,) = select(db, Run, "runs")
        files = select(db, File, "files ORDER BY id")
        version = db.execute("PRAGMA user_version").fetchone()[0]
    store.close()

    assert version == len(MIGRATIONS)
    assert (sweep.retries, sweep.healed_retries) == (4, None)
    assert run.announced == "interrupted"
    assert files == [
        File(3, 1, "here", 3, 1.0, "m", 5),
        File(7, 1, "same", 7, 2.0, "m", 5),
        File(8, 1, "never", None, None, None, None),
    ]
    assert files[1].blob_id == 7  # the file's name on disk, where the first version put it
