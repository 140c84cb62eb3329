"""One writer and many readers: what is kept, what is undone, and what a reader sees."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from deployer.backend.db.rows import Connection
from deployer.backend.db.store import DATABASE, Database, read_only


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / DATABASE)
    yield made
    made.close()


def add(store: Database, name: str) -> Future[None]:
    return store.submit(lambda db: insert(db, name))


def insert(db: Connection, name: str) -> None:
    db.execute("INSERT INTO users (name, created_at) VALUES (?, 0)", (name,))


def names(db: Connection) -> list[str]:
    return [row[0] for row in db.execute("SELECT name FROM users ORDER BY id")]


def hold(store: Database) -> threading.Event:
    """Keep the writer busy until the event is set, so that what is submitted waits together."""
    started, over = threading.Event(), threading.Event()

    def wait(_: Connection) -> None:
        started.set()
        over.wait()

    store.submit(wait)
    started.wait()
    return over


def test_what_fails_undoes_itself_alone(store: Database) -> None:
    over = hold(store)
    good, twice, late = (add(store, name) for name in ("a", "a", "b"))
    over.set()
    assert good.exception() is None
    assert isinstance(twice.exception(), sqlite3.IntegrityError)
    assert late.exception() is None
    with store.snapshot() as db:
        assert names(db) == ["a", "b"]


def test_what_waits_together_is_committed_together(store: Database) -> None:
    with store.snapshot() as db:
        (before,) = db.execute("PRAGMA data_version").fetchone()
    over = hold(store)
    added = [add(store, f"u{number}") for number in range(50)]
    seen: list[int] = []
    added[0].add_done_callback(lambda _: seen.append(len(read_names(store.path))))
    over.set()
    for one in added:
        one.result()
    assert seen == [50]
    with store.snapshot() as db:
        (after,) = db.execute("PRAGMA data_version").fetchone()
    assert before != after


def read_names(path: Path) -> list[str]:
    with read_only(path) as db:
        return names(db)


def test_an_answer_means_that_others_see_it(store: Database) -> None:
    for number in range(20):
        add(store, f"u{number}").result()
        assert len(read_names(store.path)) == number + 1


def test_a_commit_that_finds_no_room_fails_whatever_was_in_it(store: Database) -> None:
    add(store, "first").result()
    with store.transaction() as db:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count={pages}")
    over = hold(store)
    small = add(store, "small")
    big = add(store, "x" * 1_000_000)
    over.set()
    assert big.exception() is not None
    assert store.full
    kept = read_names(store.path)
    assert kept == ["first", "small"] if small.exception() is None else kept == ["first"]
    with store.transaction() as db:
        db.execute("PRAGMA max_page_count=1000000")
    add(store, "later").result()
    assert read_names(store.path)[-1] == "later"


def test_a_snapshot_does_not_change_while_others_write(store: Database) -> None:
    with store.snapshot() as db:
        assert names(db) == []
        add(store, "a").result()
        assert names(db) == []
    with store.snapshot() as db:
        assert names(db) == ["a"]


def test_a_snapshot_changes_nothing(store: Database) -> None:
    with store.snapshot() as db, pytest.raises(sqlite3.OperationalError, match="readonly"):
        insert(db, "a")


def test_inside_a_change_everything_joins_it(store: Database) -> None:
    def change(db: Connection) -> list[str]:
        insert(db, "a")
        with store.transaction() as same, store.snapshot() as seen:
            insert(same, "b")
            return names(seen)

    assert store.submit(change).result() == ["a", "b"]


def test_what_nobody_waits_for_any_more_is_not_done(store: Database) -> None:
    over = hold(store)
    given_up, wanted = add(store, "a"), add(store, "b")
    assert given_up.cancel()
    over.set()
    wanted.result()
    assert read_names(store.path) == ["b"]


def test_what_was_submitted_is_written_before_it_closes(tmp_path: Path) -> None:
    store = Database(tmp_path / DATABASE)
    over = hold(store)
    added = add(store, "a")
    over.set()
    store.close()
    assert added.result() is None
    assert read_names(store.path) == ["a"]
