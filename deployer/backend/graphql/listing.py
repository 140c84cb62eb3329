"""Lists of rows as W&B's clients expect them: opaque ids and cursor pagination."""

from __future__ import annotations

import base64
import contextlib
import json
import math
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

from graphql import GraphQLResolveInfo

from deployer.backend.db.accounts import ProjectRow, list_users
from deployer.backend.db.artifacts import Artifact, Collection
from deployer.backend.db.rows import Connection, get, select
from deployer.backend.db.runs import RunRow
from deployer.backend.db.sweeps import SweepRow, find_sweep, list_sweeps
from deployer.backend.graphql.filters import MISSING, Fields, Filter
from deployer.backend.request import LARGEST_INT, Refusal, not_found, parse_json, read_object
from deployer.backend.scheduling.context import Request
from deployer.sweeps.results import WRITTEN

R = TypeVar("R")

DEFAULT_ORDER = "+created_at"  # W&B's own
DEFAULT_PAGE = 50
ALL = LARGEST_INT  # the page size if a client without a number expects all rows

# (known or not, number or text, the number, the text, the row id)
SortKey = tuple[int, int, float, str, int]

ROW_FIELDS: Fields[Any] = Fields(("id", "name"))
SWEEP_FIELDS: Fields[SweepRow] = Fields(
    ("name", "state", "method", "description", "created_at", "updated_at"),
    {"display_name": lambda sweep: sweep.title, "heartbeat_at": lambda sweep: sweep.updated_at},
    {"config": lambda sweep: (sweep.settings,)},
)
COLLECTION_FIELDS: Fields[Collection] = Fields(
    ("id", "name", "type", "description", "created_at", "updated_at"),
    {"tag": lambda row: row.tag_names, "tags": lambda row: row.tag_names},
)
ARTIFACT_FIELDS: Fields[Artifact] = Fields(
    ("version", "digest", "description", "file_count", "created_at", "updated_at"),
    {
        "state": lambda row: "COMMITTED" if row.committed else "PENDING",
        "version_index": lambda row: row.version,
        "size": lambda row: row.size_bytes,
        "tag": lambda row: row.tag_names,
        "tags": lambda row: row.tag_names,
    },
    {"metadata": lambda row: (read_object(row.metadata or "{}"),)},
)

MOST_DIGITS = 18
# The resolvers' `info` argument, with our Request as its context.
Info: TypeAlias = "GraphQLResolveInfo[Request]"


def fields_of_runs(db: Connection, project_id: int) -> Fields[RunRow]:
    def sweep_names() -> dict[int, str]:
        return {row.id: row.name for row in list_sweeps(db, get(db, ProjectRow, project_id))}

    sweeps = cache(sweep_names)
    users = cache(lambda: {user.id: user.name for user in list_users(db)})
    # A filter tests all its terms on one run before the next, so caching one run is enough.
    config, summary = lru_cache(1)(_config_forms), lru_cache(1)(read_object)

    def username(run: RunRow) -> str | None:
        return users().get(run.user_id)

    return Fields(
        ("name", "display_name", "state", "job_type", "host", "program", "notes", "created_at"),
        {
            "entity": lambda _: get(db, ProjectRow, project_id).entity,
            "group": lambda run: run.group_name,
            "commit": lambda run: run.commit_hash,
            "description": lambda run: run.notes or run.description,
            "tags": lambda run: json.loads(run.tags),
            "sweep": lambda run: sweeps().get(run.sweep_id or 0),
            "heartbeat_at": _heartbeat_at,
            "duration": lambda run: max(0.0, _heartbeat_at(run) - run.created_at),
            **dict.fromkeys(("username", "user", "user.username"), username),
        },
        {
            "config": lambda run: config(run.config),
            **dict.fromkeys(("summary_metrics", "summary"), lambda run: (summary(run.summary),)),
        },
    )


def _heartbeat_at(run: RunRow) -> float:
    return run.heartbeat_at or run.created_at


def _config_forms(text: str) -> tuple[Any, ...]:
    """Return a configuration as users write it, and as stored (`lr.value`)."""
    stored = read_object(text) or {}
    plain = {
        name: entry["value"] if isinstance(entry, dict) and "value" in entry else entry
        for name, entry in stored.items()
    }
    return (plain, stored)


class Order:
    """A sort order, `+key` or `-key`; rows without the key and NaN are always last."""

    def __init__(self, text: str | None, fields: Fields[Any]) -> None:
        key = (text or DEFAULT_ORDER).strip()
        self.descending = key.startswith("-")
        self.key = key.lstrip("+-")
        self._read = fields.reader(self.key)

    def place(self, row: Any) -> SortKey:
        """Return a row's sort key, which is unique."""
        sortable = _sortable(self._read(row))
        known = sortable is not None
        return (int(known is self.descending), *(sortable or (0, 0.0, "")), row.id)


def _sortable(value: Any) -> tuple[int, float, str] | None:
    if isinstance(value, dict):  # a metric with `define_metric(summary=…)`, such as {"min": 0.1}
        value = next(iter(value.values()), None)
    if isinstance(value, str):
        value = WRITTEN.get(value, value)
    if value is None or value is MISSING or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, str(value))


def page_of(
    rows: Iterable[R],
    order: str | None,
    after: str | None = None,
    first: int | None = None,
    fields: Fields[R] = ROW_FIELDS,
) -> dict[str, Any]:
    """Return one page; a cursor is a sort key, so added or deleted rows do not shift pages."""
    wanted = Order(order, fields)
    placed = [(wanted.place(row), row) for row in rows]
    placed.sort(key=itemgetter(0), reverse=wanted.descending)
    rest = placed
    if after:
        mark = _decode(after)
        rest = [
            pair for pair in placed if (pair[0] < mark if wanted.descending else pair[0] > mark)
        ]
    return _connection(rest, after, _size(first), len(placed))


def _size(first: int | None) -> int:
    return DEFAULT_PAGE if first is None else max(first, 0)


def _connection(
    rest: list[tuple[SortKey, R]], after: str | None, size: int, total: int
) -> dict[str, Any]:
    """Return the first `size` of the rows that remain as a page."""
    page = rest[:size]
    edges = [{"node": row, "cursor": _encode(place)} for place, row in page]
    return {
        "edges": edges,
        "page_info": {
            "has_next_page": len(page) < len(rest),
            "end_cursor": edges[-1]["cursor"] if edges else after,
        },
        "total_count": total,
    }


class Runs:
    """The runs of a project or of a sweep that pass a filter.

    Without a filter, or with only a sweep's name, the database uses an index. Then a page in order
    of creation does not read the runs of other pages.
    """

    def __init__(
        self, db: Connection, project_id: int, filters: str | None, sweep: SweepRow | None = None
    ) -> None:
        self._db, self._fields = db, fields_of_runs(db, project_id)
        wanted = Filter(filters, self._fields)
        parts = wanted.condition.get("$and", ())
        condition = parts[0] if len(wanted.condition) == len(parts) == 1 else wanted.condition
        if sweep is None and list(condition) == ["sweep"] and isinstance(condition["sweep"], str):
            sweep = find_sweep(db, get(db, ProjectRow, project_id), condition["sweep"])
            condition = {} if sweep else condition
        self._where = "sweep_id = ?" if sweep else "project_id = ?"
        self._value = sweep.id if sweep else project_id
        self._passes = wanted.passes if condition else None

    def read(self) -> list[RunRow]:
        found = select(self._db, RunRow, f"WHERE {self._where} ORDER BY id", self._value)
        return [run for run in found if self._passes(run)] if self._passes else found

    def count(self) -> int:
        if self._passes:
            return len(self.read())
        count = f"SELECT COUNT(*) FROM runs WHERE {self._where}"
        return int(self._db.execute(count, (self._value,)).fetchone()[0])

    def page(self, order: str | None, after: str | None, first: int | None) -> dict[str, Any]:
        wanted = Order(order, self._fields)
        if self._passes or wanted.key not in ("created_at", "createdAt"):
            return page_of(self.read(), order, after, first, self._fields)
        size = _size(first)
        way, beyond = ("DESC", "<") if wanted.descending else ("ASC", ">")
        rest = f"AND (created_at, id) {beyond} (?, ?)" if after else ""
        found = select(
            self._db,
            RunRow,
            f"WHERE {self._where} {rest} ORDER BY created_at {way}, id {way} LIMIT ?",
            self._value,
            *(parse_birth(after) if after else ()),
            size + 1,
        )
        return _connection([(wanted.place(run), run) for run in found], after, size, self.count())


def _encode(place: SortKey) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _decode(cursor: str) -> SortKey:
    """Return a cursor's sort key; refuse an invalid cursor with 400."""
    try:
        place = parse_json(base64.urlsafe_b64decode(cursor).decode(), "the cursor")
        known, kind, number, text, row_id = place
        if not abs(int(row_id)) < 2**63:
            raise ValueError
        return (int(known), int(kind), float(number), str(text), int(row_id))
    except (ValueError, TypeError, OverflowError, Refusal) as error:
        raise Refusal(400, f"the cursor {cursor!r} is not from this server") from error


def encode_birth(created_at: float, row_id: int) -> str:
    """Return the cursor of a run in order of creation."""
    return _encode((0, 0, created_at, "", row_id))


def parse_birth(cursor: str) -> tuple[float, int]:
    """Return a cursor's creation time and row id; refuse an invalid cursor with 400."""
    *_, created_at, _, row_id = _decode(cursor)
    return created_at, row_id


def encode_id(kind: str, row_id: int) -> str:
    """Return the opaque id of a row, as base64, since the SDK decodes ids of artifacts."""
    return base64.b64encode(f"{kind}:{row_id}".encode()).decode()


def decode_id(kind: str, text: str) -> int:
    """Return the row number of an opaque id; refuse an id of another kind with 404.

    Agents that joined before ids were base64 still send the plain form.
    """
    with contextlib.suppress(ValueError):
        text = text if ":" in text else base64.b64decode(text, validate=True).decode()
    prefix, _, number = text.rpartition(":")
    if prefix != kind or not is_number(number):
        raise not_found(f"{kind.lower()} {text}")
    return int(number)


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


def parse_cursor(after: str | None) -> int:
    """Return a cursor's number; refuse an invalid cursor with 400."""
    if after and not is_number(after):
        raise Refusal(400, f"the cursor {after!r} is not from this server")
    return int(after or 0)


def tag_nodes(kind: str, names: Sequence[str]) -> list[dict[str, str]]:
    """Return tags as W&B's type `Tag`; `kind` makes the ids distinct for different objects."""
    return [{"id": encode_id(kind, number), "name": name} for number, name in enumerate(names)]


def connection(
    nodes: Sequence[Any],
    after: str | None = None,
    first: int | None = None,
    default_page: int | None = DEFAULT_PAGE,
) -> dict[str, Any]:
    """Return one page of `nodes`; a cursor is the number of the next row; None is no limit."""
    start = parse_cursor(after)
    size = first if first is not None else default_page
    stop = len(nodes) if size is None else min(len(nodes), start + max(size, 0))
    edges = [
        {"node": node, "cursor": str(number)}
        for number, node in enumerate(nodes[start:stop], start + 1)
    ]
    return {
        "edges": edges,
        "page_info": {
            "has_next_page": stop < len(nodes),
            "end_cursor": edges[-1]["cursor"] if edges else after,
        },
        "total_count": len(nodes),
    }
