"""Numbered lines of a run: history, events (system metrics) and output (console).

Lines are written at their offset, so writing a chunk twice is idempotent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeVar

from deployer.backend.db.rows import Connection
from deployer.backend.request import parse_object, read_object

BEYOND_STEPS = 2.0**63  # steps are stored as 64-bit integers
Stream = Literal["history", "events", "output"]
LineItem = TypeVar("LineItem")

FILE_STREAMS: dict[str, Stream] = {
    "wandb-history.jsonl": "history",
    "wandb-events.jsonl": "events",
    "output.log": "output",
}


def write_lines(
    db: Connection, run_id: int, stream: Stream, offset: int, texts: Sequence[str]
) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO lines (run_id, stream, number, step, text) VALUES (?, ?, ?, ?, ?)",
        [(run_id, stream, n, row_step(stream, text), text) for n, text in enumerate(texts, offset)],
    )


def row_step(stream: str, text: str) -> float | None:
    """Return the step of a row for the index, 0 if it has none; None if the line is no row."""
    row = None if stream == "output" else read_object(text)
    return step_of(row, 0) if row else None


def clear_lines(db: Connection, run_id: int, *streams: Stream, since: int = 0) -> None:
    for stream in streams:
        doomed = "DELETE FROM lines WHERE run_id = ? AND stream = ? AND number >= ?"
        db.execute(doomed, (run_id, stream, since))


def count_lines(db: Connection, run_id: int, stream: Stream) -> int:
    row = db.execute(
        "SELECT COALESCE(MAX(number) + 1, 0) FROM lines WHERE run_id = ? AND stream = ?",
        (run_id, stream),
    ).fetchone()
    return int(row[0])


def read_lines(
    db: Connection, run_id: int, stream: Stream, start: int = 0, limit: int = -1
) -> list[tuple[int, str]]:
    """Return up to `limit` pairs (number, text) from line `start` on; a limit of -1 means all."""
    rows = db.execute(
        "SELECT number, text FROM lines WHERE run_id = ? AND stream = ? AND number >= ?"
        " ORDER BY number LIMIT ?",
        (run_id, stream, start, limit),
    )
    return [(row[0], row[1]) for row in rows]


def last_lines(db: Connection, run_id: int, stream: Stream, limit: int) -> list[tuple[int, str]]:
    rows = db.execute(
        "SELECT number, text FROM lines WHERE run_id = ? AND stream = ?"
        " ORDER BY number DESC LIMIT ?",
        (run_id, stream, limit),
    ).fetchall()
    return [(row[0], row[1]) for row in reversed(rows)]


def last_step(db: Connection, run_id: int) -> float:
    return max((step_in(text) for _, text in last_lines(db, run_id, "history", 1)), default=-1)


def count_before(db: Connection, run_id: int, step: float) -> int:
    # A row without a step is stored with 0, but counts as -1 here.
    where = "run_id = ? AND stream = 'history' AND COALESCE(step, -1) >= ? ORDER BY number"
    rows = db.execute(f"SELECT number, text FROM lines WHERE {where}", (run_id, step))
    return next((number for number, text in rows if step_in(text) >= step), 0)


def find_rows(
    db: Connection,
    run_id: int,
    stream: Stream = "history",
    start: float = -BEYOND_STEPS,
    stop: float | None = None,
) -> list[int]:
    """Return the line numbers of rows with a step from `start` to below `stop`, in order."""
    high = BEYOND_STEPS if stop is None else stop
    bounds = (max(-BEYOND_STEPS, min(step, BEYOND_STEPS)) for step in (start, high))
    found = db.execute(
        "SELECT number FROM lines INDEXED BY lines_step"
        " WHERE run_id = ? AND stream = ? AND step >= ? AND step < ? ORDER BY number",
        (run_id, stream, *bounds),
    )
    return [row[0] for row in found]


def iterate_rows(
    db: Connection, run_id: int, numbers: list[int], stream: Stream = "history"
) -> Iterator[dict[str, Any]]:
    texts = db.execute(
        "SELECT text FROM json_each(?) CROSS JOIN lines ON number = value"
        " WHERE run_id = ? AND stream = ?",
        (json.dumps(numbers), run_id, stream),
    )
    for (text,) in texts:
        yield flatten(parse_object(text, "a row"))


def read_rows(db: Connection, run_id: int, stream: Stream = "history") -> list[dict[str, Any]]:
    """Return lines as mappings; nested values have dotted keys, like in W&B.

    NaN and infinities are floats; broken lines are skipped.
    """
    return list(iterate_rows(db, run_id, find_rows(db, run_id, stream), stream))


def flatten(row: dict[str, Any]) -> dict[str, Any]:
    """Flatten nested values (`{"val": {"loss": 1}}` is `val.loss`); media are unchanged."""
    if not any(isinstance(value, dict) for value in row.values()):
        return row
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict) and value and "_type" not in value:
            flat.update({f"{key}.{inner}": part for inner, part in flatten(value).items()})
        else:
            flat[key] = value
    return flat


def step_of(row: dict[str, Any], default: float) -> float:
    step = row.get("_step")
    return step if isinstance(step, int | float) and abs(step) < BEYOND_STEPS else default


def step_in(text: str) -> float:
    return step_of(read_object(text) or {}, -1)


def sample(items: Sequence[LineItem], size: int) -> list[LineItem]:
    """Return at most `size` evenly spaced items, including the first and the last."""
    if size <= 0 or len(items) <= size:
        return list(items)
    if size == 1:
        return [items[-1]]
    return [items[round(index * (len(items) - 1) / (size - 1))] for index in range(size)]
