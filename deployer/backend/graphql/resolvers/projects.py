"""Projects, and the sweeps and runs in them."""

from __future__ import annotations

from typing import Any

from deployer.backend.db.accounts import Project, User, ensure_project, find_project, list_projects
from deployer.backend.db.rows import find
from deployer.backend.db.runs import Run
from deployer.backend.db.sweeps import find_sweep, list_sweeps
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.filters import Filter
from deployer.backend.graphql.listing import SWEEP_FIELDS, Info, Runs, page_of
from deployer.backend.graphql.resolvers.people import entity_of
from deployer.backend.request import not_found

resolvers = Resolvers(
    {
        "Project.internalId": lambda _, project: project.id,
        "Project.entityName": lambda _, project: project.entity,
        "Project.isBenchmark": lambda *_: False,
        "Project.readOnly": lambda *_: False,
        "Project.access": lambda *_: "USER_READ",
        "Project.user": lambda db, project: find(db, User, id=project.user_id),
        "Project.totalSweeps": lambda db, project: len(list_sweeps(db, project)),
        "Project.sweep": lambda db, project, sweep_name: find_sweep(db, project, sweep_name),
        "Project.runCount": lambda db, project, filters=None: Runs(db, project.id, filters).count(),
    }
)


@resolvers.field("Query.project")
@resolvers.field("Query.model")
def resolve_project(
    _: Any, info: Info, name: str | None = None, entity_name: str | None = None
) -> Project | None:
    return find_project(info.context.db, info.context.caller, entity_name, name)


@resolvers.field("Query.projects")
@resolvers.field("Query.models")
def resolve_projects(
    _: Any,
    info: Info,
    entity_name: str | None = None,
    after: str | None = None,
    first: int | None = None,
) -> dict[str, Any]:
    found = list_projects(info.context.db, info.context.caller, entity_name)
    return page_of(found, "-id", after, first)


@resolvers.field("Mutation.upsertModel")
def resolve_upsert_model(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    wanted = (input.get("entity_name"), input.get("name"))
    db = request.db
    inserted = find_project(db, request.caller, *wanted) is None
    row = ensure_project(db, request.caller, *wanted, request.backend.now())
    return {"project": row, "model": row, "inserted": inserted}


@resolvers.field("Project.entity")
def resolve_entity(_: Project, info: Info) -> dict[str, Any]:
    return entity_of(info.context.caller.user)


@resolvers.field("Project.sweeps")
def resolve_sweeps(
    row: Project,
    info: Info,
    after: str | None = None,
    first: int | None = None,
    filters: str | None = None,
) -> dict[str, Any]:
    wanted = Filter(filters, SWEEP_FIELDS)
    found = [sweep for sweep in list_sweeps(info.context.db, row) if wanted.passes(sweep)]
    return page_of(found, "-id", after, first)


@resolvers.field("Project.run")
@resolvers.field("Project.bucket")
def resolve_run(
    row: Project, info: Info, name: str, missing_ok: bool | None = None, **_: Any
) -> Run | None:
    run = find(info.context.db, Run, project_id=row.id, name=name)
    if run is None and missing_ok is False:
        raise not_found(f"run {name}")
    return run


@resolvers.field("Project.runs")
@resolvers.field("Project.buckets")
def resolve_runs(
    row: Project,
    info: Info,
    filters: str | None = None,
    after: str | None = None,
    first: int | None = None,
    order: str | None = None,
) -> dict[str, Any]:
    return Runs(info.context.db, row.id, filters).page(order, after, first)
