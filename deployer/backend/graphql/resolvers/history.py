"""What a run logged: history, samples of it, and its console."""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice
from typing import Any

from deployer.backend.db.lines import (
    Stream,
    count_lines,
    find_rows,
    iterate_rows,
    last_lines,
    read_lines,
    sample,
    step_of,
)
from deployer.backend.db.rows import Connection
from deployer.backend.db.runs import Run
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.listing import Info, connection, parse_cursor
from deployer.backend.request import Refusal, parse_object, read_object

DEFAULT_SAMPLES = 500  # W&B's own
SPEC_NUMBERS = ("minStep", "maxStep", "samples")

resolvers = Resolvers(
    {
        "Run.events": lambda db, run, samples=None: _read_sample(
            db, run, find_rows(db, run.id, "events"), samples, "events"
        ),
    }
)


@resolvers.field("Run.history")
def resolve_history(
    row: Run,
    info: Info,
    min_step: int | None = None,
    max_step: int | None = None,
    samples: int | None = None,
) -> list[dict[str, Any]]:
    db = info.context.db
    numbers = find_rows(db, row.id, start=min_step or 0, stop=max_step)
    return _read_sample(db, row, numbers, samples)


def _read_sample(
    db: Connection, run: Run, numbers: list[int], samples: int | None, stream: Stream = "history"
) -> list[dict[str, Any]]:
    chosen = sample(numbers, samples or DEFAULT_SAMPLES)
    return list(iterate_rows(db, run.id, chosen, stream))


@resolvers.field("Run.sampledHistory")
def resolve_sampled_history(row: Run, info: Info, specs: list[str]) -> list[list[dict[str, Any]]]:
    parsed = [_parse_spec(text) for text in specs]
    return [_sampled(info.context.db, row, spec) for spec in parsed]


def _parse_spec(text: str) -> dict[str, Any]:
    spec = parse_object(text or "{}", "the history spec")
    keys, numbers = spec.get("keys") or [], (spec.get(name) for name in SPEC_NUMBERS)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise Refusal(400, "the history spec's keys are not a list of names")
    if not all(number is None or type(number) is int for number in numbers):
        raise Refusal(400, f"the history spec's {', '.join(SPEC_NUMBERS)} are whole numbers")
    return spec


def _sampled(db: Connection, run: Run, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that have every key of the spec, with these keys alone."""
    keys = spec.get("keys") or []
    if not spec:
        return []
    numbers = find_rows(db, run.id, start=spec.get("minStep") or 0, stop=_stop(spec))
    if keys:  # the chosen rows are parsed twice, so that the others need not be kept
        rows = zip(numbers, iterate_rows(db, run.id, numbers), strict=True)
        numbers = [number for number, line in rows if all(key in line for key in keys)]
    chosen = _read_sample(db, run, numbers, spec.get("samples"))
    return [_finite({key: line[key] for key in keys} if keys else line) for line in chosen]


def _stop(spec: dict[str, Any]) -> int | None:
    """Return the step before which a spec ends.

    `maxStep` is that step for older clients; for wandb-core it is the last one, and it then asks
    for exactly as many samples as there are steps, by `_step` among the keys.
    """
    last: int | None = spec.get("maxStep")
    first: int | None = spec.get("minStep")
    if first is None or last is None:
        return last
    by_core = spec.get("samples") == last - first + 1 and "_step" in (spec.get("keys") or [])
    return last + 1 if by_core else last


def _finite(line: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN and infinities by W&B's strings, since this reply is strict JSON."""
    return {key: _finite_value(value) for key, value in line.items()}


def _finite_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return _finite(value)
    return [_finite_value(item) for item in value] if isinstance(value, list) else value


@resolvers.field("Run.parquetHistory")
def resolve_parquet_history(row: Run, info: Info, live_keys: list[str]) -> dict[str, Any]:
    db = info.context.db
    rows = iterate_rows(db, row.id, find_rows(db, row.id))
    wanted = (line for line in rows if all(key in line for key in live_keys))
    # One row tells the client from which step on the history is live: all of it is.
    return {"parquet_urls": [], "live_data": [_finite(line) for line in islice(wanted, 1)]}


@resolvers.field("Run.historyKeys")
def resolve_history_keys(row: Run, info: Info) -> dict[str, Any]:
    db = info.context.db
    counts: Counter[str] = Counter()
    latest: dict[str, Any] = {}
    last_step: float = -1
    for index, line in enumerate(iterate_rows(db, row.id, find_rows(db, row.id))):
        counts.update(line.keys())
        latest.update(line)
        last_step = step_of(line, index)
    keys = {
        key: {
            "typeCounts": [{"type": "number", "count": count}],
            "monotonic": key == "_step",
            "previousValue": _previous(latest[key]),
        }
        for key, count in counts.items()
    }
    return {"lastStep": last_step, "sets": [], "keys": keys}


def _previous(value: Any) -> Any:
    """Return the value that was logged last if it is text or a number, else W&B's -1."""
    return _finite_value(value) if isinstance(value, str | int | float) else -1


@resolvers.field("Run.logLines")
def resolve_log_lines(
    row: Run,
    info: Info,
    after: str | None = None,
    first: int | None = None,
    last: int | None = None,
    **_: Any,
) -> dict[str, Any]:
    db = info.context.db
    if last is not None:
        return connection([_log_line(*line) for line in last_lines(db, row.id, "output", last)])
    start, size = parse_cursor(after), first or 1000
    found = read_lines(db, row.id, "output", start, size)
    total = count_lines(db, row.id, "output")
    stop = found[-1][0] + 1 if found else start
    return {
        "edges": [{"node": _log_line(*line), "cursor": str(line[0] + 1)} for line in found],
        "page_info": {"has_next_page": stop < total, "end_cursor": str(stop)},
        "total_count": total,
    }


def _log_line(number: int, text: str) -> dict[str, Any]:
    """Split a console line, structured or as older SDKs send it (`ERROR 2026-… text`)."""
    parts = read_object(text)
    if parts is None:
        return {"number": number, "line": text, "level": "info"}
    return {
        "number": number,
        "line": str(parts.get("content", "")),
        "timestamp": parts.get("ts"),
        "level": parts.get("level", "info"),
        "label": parts.get("label"),
    }
