"""A database of every older version opens in this one and loses nothing; a newer one is refused."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from deployer.backend.db.files import File
from deployer.backend.db.lines import Stream, write_lines
from deployer.backend.db.rows import find_all
from deployer.backend.db.store import OLDEST, SCHEMA, Database, migrate
from deployer.errors import BackendError

OLDEST_FILE = Path(__file__).with_name(f"version_{OLDEST}.sql")
GONE = {"interrupted", "resuming", "manifest_md5", "manifest_blob_id"}
NEW: dict[str, list[dict[str, Any]]] = {
    "runs": [{"former": None}] * 3,
    "lines": [{"step": 0}, {"step": None}],
}
STREAMS: tuple[Stream, ...] = ("events", "history", "output")
LINES = ['{"_step": 3, "loss": NaN}', '{"loss": 1}', "[", '{"_step": 0.5}']
OBJECTS = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%' ORDER BY name"


def write_oldest(path: Path) -> None:
    """Write a database as the oldest version that we migrate has, with a row in each table."""
    with sqlite3.connect(path, isolation_level=None) as db:
        db.executescript(OLDEST_FILE.read_text())
        db.execute("PRAGMA journal_mode=WAL")
    db.close()


def read_tables(db: sqlite3.Connection) -> dict[str, list[dict[str, Any]]]:
    db.row_factory = sqlite3.Row
    return {
        name: [dict(row) for row in db.execute(f"SELECT * FROM {name}")]
        for kind, name, _ in db.execute(OBJECTS).fetchall()
        if kind in ("table", "view")
    }


def describe(db: sqlite3.Connection) -> dict[str, Any]:
    """Return every table, index, view and trigger; the order of a table's columns is left out."""
    found = {}
    for kind, name, sql in db.execute(OBJECTS).fetchall():
        if kind == "table":
            columns = [str(tuple(row)[1:]) for row in db.execute(f"PRAGMA table_info({name})")]
            keys = [str(tuple(row)[2:]) for row in db.execute(f"PRAGMA foreign_key_list({name})")]
            words = re.findall("AUTOINCREMENT|WITHOUT ROWID|UNIQUE [^\n]*", sql)
            found[name] = (sorted(columns), sorted(keys), sorted(words))
        else:
            found[name] = " ".join(sql.split())
    return found


def test_what_the_oldest_version_wrote_is_all_there(tmp_path: Path) -> None:
    path = tmp_path / "backend.sqlite"
    write_oldest(path)
    with sqlite3.connect(path) as db:
        before = read_tables(db)
    db.close()
    store = Database(path, migrating=True)
    with store.snapshot() as db:
        after = read_tables(db)
        files = find_all(db, File)
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    store.close()
    assert all(before[table] for table in before.keys() - {"sessions", "released_blobs"})
    for table in after.keys() - {"files"}:
        old = before.get(table, [])
        added = NEW.get(table) or [{}] * len(old)
        assert after[table] == [
            {**{name: value for name, value in row.items() if name not in GONE}, **new}
            for row, new in zip(old, added, strict=True)
        ]
    # A run's file has the number that its address names.
    assert files == [
        File(3, 1, None, 0, "here", "m", 5, None, 3, 1.0),
        File(8, 1, None, 0, "never", None, None, None, None, None),
        File(9, None, 1, 0, "f", "m", None, None, 3, None),
        File(10, None, 1, 1, "wandb_manifest.json", None, 5, None, 3, None),
    ]


def test_rows_of_an_old_database_have_the_steps_that_new_ones_get(tmp_path: Path) -> None:
    write_oldest(tmp_path / "old.sqlite")
    insert = "INSERT INTO lines (run_id, stream, number, text) VALUES (3, ?, ?, ?)"
    with sqlite3.connect(tmp_path / "old.sqlite") as old:
        for stream in STREAMS:
            old.executemany(insert, [(stream, *line) for line in enumerate(LINES)])
    old.close()
    store = Database(tmp_path / "old.sqlite", migrating=True)
    with store.transaction() as db:
        migrated = read_steps(db)
        for stream in STREAMS:
            write_lines(db, 3, stream, 0, LINES)
        assert read_steps(db) == migrated
    store.close()
    assert migrated == [3, 0, None, 0.5, 3, 0, None, 0.5, None, None, None, None]


def read_steps(db: sqlite3.Connection) -> list[float | None]:
    found = db.execute("SELECT step FROM lines WHERE run_id = 3 ORDER BY stream, number")
    return [row[0] for row in found]


def test_an_old_database_gets_the_tables_of_a_new_one(tmp_path: Path) -> None:
    write_oldest(tmp_path / "old.sqlite")
    found = []
    for name in ("old.sqlite", "new.sqlite"):
        store = Database(tmp_path / name, migrating=True)
        with store.snapshot() as db:
            found.append(describe(db))
        store.close()
    assert found[0] == found[1]


def test_what_a_version_of_the_past_wrote_is_never_edited() -> None:
    text = OLDEST_FILE.read_bytes()
    assert hashlib.sha256(text).hexdigest()[:12] == "df350005a9cb"


@pytest.mark.parametrize("migrating", [True, False])
@pytest.mark.parametrize(
    ("version", "said"),
    [(SCHEMA + 1, "a newer deployer"), (OLDEST - 1, "an older deployer")],
)
def test_a_version_that_nobody_migrates_is_refused_in_a_sentence(
    tmp_path: Path, migrating: bool, version: int, said: str
) -> None:
    path = tmp_path / "backend.sqlite"
    with sqlite3.connect(path) as db:
        migrate(db)
        db.execute(f"PRAGMA user_version={version}")
    db.close()
    with pytest.raises(BackendError) as refused:
        Database(path, migrating=migrating)
    assert refused.value.message == (
        f"{tmp_path} was written by {said} (schema {version}, this one's is {SCHEMA})"
    )
