"""Lists of a project's runs; the common questions are answered without reading every run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deployer.backend.db.accounts import list_users
from deployer.backend.db.projects import Project
from deployer.backend.db.rows import Connection, select
from deployer.backend.db.runs import Run
from deployer.backend.db.sweeps import Sweep, find_sweep, list_sweeps
from deployer.backend.graphql.fields import Fields, run_fields
from deployer.backend.graphql.filters import parse_filter
from deployer.backend.graphql.ordering import (
    DEFAULT_ORDER,
    DEFAULT_PAGE,
    Order,
    decode_place,
    encode_place,
    ordered_connection,
    parse_order,
)
from deployer.backend.parsing import parse_json

CREATED = ("created_at", "createdAt")


@dataclass(frozen=True)
class _Where:
    sql: str
    value: int


def page_of_runs(
    db: Connection,
    project: Project,
    filters: str | None,
    order: str | None,
    after: str | None,
    first: int | None,
) -> dict[str, Any]:
    """Return one page of the runs that pass a filter, as a connection."""
    where = _where(db, project, filters)
    key = (order or DEFAULT_ORDER).strip()
    if where is None or key.lstrip("+-") not in CREATED:
        found = filter_runs(db, project, filters)
        wanted = parse_order(order, fields_of_runs(db, project))
        return ordered_connection(found, wanted, after, first)
    size = first if first is not None else DEFAULT_PAGE
    return _page_by_birth(db, where, key.startswith("-"), after, size)


def page_of_sweep(
    db: Connection, sweep: Sweep, order: str | None, after: str | None, first: int | None
) -> dict[str, Any] | None:
    """Return one page of a sweep's runs, all without `first`; None if the order needs them all."""
    key = (order or DEFAULT_ORDER).strip()
    if key.lstrip("+-") not in CREATED:
        return None
    where = _Where("sweep_id = ?", sweep.id)
    return _page_by_birth(db, where, key.startswith("-"), after, first)


def count_runs(db: Connection, project: Project, filters: str | None) -> int:
    """Return how many runs pass a filter."""
    where = _where(db, project, filters)
    return _count(db, where) if where else len(filter_runs(db, project, filters))


def count_of_sweep(db: Connection, sweep: Sweep) -> int:
    """Return how many runs a sweep has."""
    return _count(db, _Where("sweep_id = ?", sweep.id))


def filter_runs(db: Connection, project: Project, filters: str | None) -> list[Run]:
    """Return a project's runs that pass a filter, oldest first."""
    if where := _where(db, project, filters):
        return select(db, Run, f"WHERE {where.sql} ORDER BY id", where.value)
    passes = parse_filter(filters, fields_of_runs(db, project))
    return [
        run
        for run in select(db, Run, "WHERE project_id = ? ORDER BY id", project.id)
        if passes(run)
    ]


def fields_of_runs(db: Connection, project: Project) -> Fields[Run]:
    """Return what filters and orders may name of a project's runs."""
    return run_fields(
        {sweep.id: sweep.name for sweep in list_sweeps(db, project)},
        {user.id: user.name for user in list_users(db)},
    )


def _where(db: Connection, project: Project, filters: str | None) -> _Where | None:
    """Return what the database itself can find: all runs, or a sweep's, as `Sweep.runs` asks."""
    condition = parse_json(filters or "{}", "the filter") or {}
    if isinstance(condition, dict) and list(condition) == ["$and"]:
        parts = condition["$and"]
        condition = parts[0] if isinstance(parts, list) and len(parts) == 1 else condition
    if condition == {}:
        return _Where("project_id = ?", project.id)
    if isinstance(condition, dict) and list(condition) == ["sweep"]:
        name = condition["sweep"]
        sweep = find_sweep(db, project, name) if isinstance(name, str) else None
        return _Where("sweep_id = ?", sweep.id) if sweep else None
    return None


def _page_by_birth(
    db: Connection, where: _Where, descending: bool, after: str | None, size: int | None
) -> dict[str, Any]:
    """Have the database find a page, so that none costs more for the runs on others."""
    size = -1 if size is None else max(size, 0)
    values: list[Any] = [where.value]
    rest, way = "", "DESC" if descending else "ASC"
    if after:
        rest = f" AND (created_at, id) {'<' if descending else '>'} (?, ?)"
        values += parse_birth(after)
    found = select(
        db,
        Run,
        f"WHERE {where.sql}{rest} ORDER BY created_at {way}, id {way} LIMIT ?",
        *values,
        size if size < 0 else size + 1,
    )
    page = found if size < 0 else found[:size]
    order: Order[Run] = Order(lambda run: run.created_at, descending)
    edges = [{"node": run, "cursor": encode_place(order.place(run))} for run in page]
    return {
        "edges": edges,
        "page_info": {
            "has_next_page": len(page) < len(found),
            "end_cursor": edges[-1]["cursor"] if edges else after,
        },
        "total_count": _count(db, where),
    }


def encode_birth(created_at: float, row_id: int) -> str:
    """Return the cursor of a run in the order in which runs were made."""
    return encode_place((0, 0, created_at, "", row_id))


def parse_birth(cursor: str) -> tuple[float, int]:
    """Return when the run of a cursor was made, and its row; refuse with 400 what is none."""
    *_, created_at, _, row_id = decode_place(cursor)
    return created_at, row_id


def _count(db: Connection, where: _Where) -> int:
    (found,) = db.execute(f"SELECT COUNT(*) FROM runs WHERE {where.sql}", (where.value,)).fetchone()
    return int(found)
