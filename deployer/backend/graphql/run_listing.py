"""Lists of a project's runs; the common questions are answered without reading every run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.backend.db.accounts import list_users
from deployer.backend.db.database import Connection, select
from deployer.backend.db.projects import Project
from deployer.backend.db.runs import Run, list_runs
from deployer.backend.db.sweeps import find_sweep, list_sweeps
from deployer.backend.graphql.fields import Fields, run_fields
from deployer.backend.graphql.filters import parse_filter
from deployer.backend.graphql.ordering import DEFAULT_ORDER, Order, ordered_connection, parse_order

CREATED = ("created_at", "createdAt")


@dataclass(frozen=True)
class Birth:
    """When a run was made: all that the default order needs."""

    id: int
    created_at: float


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
    by_birth: Order[Birth] = Order(lambda birth: birth.created_at, key.startswith("-"))
    page = ordered_connection(_births(db, where), by_birth, after, first)
    runs = _runs_by_id(db, [edge["node"].id for edge in page["edges"]])
    edges = [{**edge, "node": runs[edge["node"].id]} for edge in page["edges"]]
    return {**page, "edges": edges}


def count_runs(db: Connection, project: Project, filters: str | None) -> int:
    """Return how many runs pass a filter."""
    where = _where(db, project, filters)
    return len(_births(db, where) if where else filter_runs(db, project, filters))


def filter_runs(db: Connection, project: Project, filters: str | None) -> list[Run]:
    """Return a project's runs that pass a filter, oldest first."""
    if where := _where(db, project, filters):
        return list_runs(db, f"{where.sql} ORDER BY id", where.value)
    passes = parse_filter(filters, fields_of_runs(db, project))
    return [run for run in list_runs(db, "project_id = ? ORDER BY id", project.id) if passes(run)]


def fields_of_runs(db: Connection, project: Project) -> Fields[Run]:
    """Return what filters and orders may name of a project's runs."""
    return run_fields(
        {sweep.id: sweep.name for sweep in list_sweeps(db, project)},
        {user.id: user.name for user in list_users(db)},
    )


def _where(db: Connection, project: Project, filters: str | None) -> _Where | None:
    """Return what the database itself can find: all runs, or a sweep's, as `Sweep.runs` asks."""
    try:
        condition = json.loads(filters or "{}") or {}
    except ValueError:
        return None
    if isinstance(condition, dict) and list(condition) == ["$and"] and len(condition["$and"]) == 1:
        condition = condition["$and"][0]
    if condition == {}:
        return _Where("project_id = ?", project.id)
    if isinstance(condition, dict) and list(condition) == ["sweep"]:
        name = condition["sweep"]
        sweep = find_sweep(db, project, name) if isinstance(name, str) else None
        return _Where("sweep_id = ?", sweep.id) if sweep else None
    return None


def _births(db: Connection, where: _Where) -> Sequence[Birth]:
    return select(db, Birth, f"runs WHERE {where.sql}", [where.value])


def _runs_by_id(db: Connection, ids: Iterable[int]) -> dict[int, Run]:
    wanted = list(ids)
    marks = ", ".join("?" * len(wanted))
    return {run.id: run for run in list_runs(db, f"id IN ({marks})", *wanted)}
