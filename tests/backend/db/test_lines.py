"""Lines of a run's streams: what is read to write one, and where a later process goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.backend.db.lines import count_before, read_lines, step_in, write_lines
from deployer.backend.db.rows import Connection
from deployer.backend.db.store import DATABASE, Database

LARGE = 20_000_000
ODD_LINES = [
    '{"v": 1}',
    "[",
    '{"_step": -2}',
    "{}",
    '{"_step": 0}',
    '{"_step": 2.5}',
    '{"_step": 1}',
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    """Make a database with the runs 1, 2 and 3."""
    made = Database(tmp_path / DATABASE)
    with made.transaction() as db:
        db.execute("INSERT INTO users VALUES (1, 'u', 0)")
        db.execute("INSERT INTO projects VALUES (1, 'u', 'p', 1, 0)")
        db.executemany(
            "INSERT INTO runs (id, project_id, user_id, name, state, created_at)"
            " VALUES (?, 1, 1, ?, 'running', 0)",
            [(number, f"r{number}") for number in (1, 2, 3)],
        )
    yield made
    made.close()


def bytes_read() -> int:
    """Return how many bytes this process has read, also from the system's cache."""
    return int(Path("/proc/self/io").read_text().split()[1])


def log(db: Connection, run_id: int, number: int, text: str = "{}") -> None:
    write_lines(db, run_id, "history", number, [text])


def test_large_lines_of_a_run_are_not_read_to_write_those_of_others(store: Database) -> None:
    for run_id in (1, 2, 3):
        store.submit(lambda db, run_id=run_id: log(db, run_id, 0)).result()
    for number in (1, 2):
        store.submit(lambda db, number=number: log(db, 2, number, "x" * LARGE)).result()
    before = bytes_read()
    for run_id, number in ((1, 1), (2, 3), (3, 1)):
        store.submit(lambda db, run_id=run_id, number=number: log(db, run_id, number)).result()
    assert bytes_read() - before < LARGE / 20


@pytest.mark.parametrize("step", [-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.5])
def test_a_later_process_goes_on_at_the_first_row_that_is_not_before_its_own(
    store: Database, step: float
) -> None:
    """A row without a step counts as one at -1 here, and at 0 in a page."""
    with store.transaction() as db:
        write_lines(db, 1, "history", 0, [*ODD_LINES, '{"_step": 9}'])
        steps = [step_in(text) for _, text in read_lines(db, 1, "history")]
        assert steps == [-1, -1, -2, -1, 0, 2.5, 1, 9]
        first = next(number for number, one in enumerate(steps) if one >= step)
        assert count_before(db, 1, step) == first
