"""Projects: made on first use, seen only by their entity's user."""

from __future__ import annotations

from dataclasses import dataclass

from deployer.backend.db.database import Connection, insert, select, select_one
from deployer.backend.db.users.accounts import Caller
from deployer.backend.refusal import Refusal, not_found

DEFAULT_PROJECT = "uncategorized"  # W&B's own name for a project that nobody named


@dataclass(frozen=True)
class Project:
    """A folder of sweeps and runs under one entity."""

    id: int
    entity: str
    name: str
    user_id: int
    created_at: float


def find_project(
    db: Connection, caller: Caller, entity: str | None, name: str | None
) -> Project | None:
    """Return a project, or None if it is not there or not this caller's."""
    if (entity or caller.user.name) != caller.user.name:
        return None
    wanted = (caller.user.name, name or DEFAULT_PROJECT)
    return select_one(db, Project, "projects WHERE entity = ? AND name = ?", *wanted)


def get_project(db: Connection, caller: Caller, entity: str | None, name: str | None) -> Project:
    """Return a project; refuse with 404 if there is none."""
    project = find_project(db, caller, entity, name)
    if project is None:
        raise not_found(f"project {entity or caller.user.name}/{name}")
    return project


def ensure_project(
    db: Connection, caller: Caller, entity: str | None, name: str | None, now: float
) -> Project:
    """Return a project, made if there is none.

    Refuse with 403 another user's entity, and an agent that would make a project.
    """
    if entity and entity != caller.user.name:
        raise Refusal(403, f"permission denied: entity {entity} is not {caller.user.name}'s")
    project = find_project(db, caller, entity, name)
    if project:
        return project
    if caller.sweep_id is not None:
        raise Refusal(403, "an agent's key cannot make projects")
    insert(
        db,
        "projects",
        entity=caller.user.name,
        name=name or DEFAULT_PROJECT,
        user_id=caller.user.id,
        created_at=now,
    )
    return get_project(db, caller, entity, name)


def project_by_id(db: Connection, project_id: int) -> Project:
    """Return the project that a row of another table points to."""
    project = select_one(db, Project, "projects WHERE id = ?", project_id)
    if project is None:
        raise not_found("project")
    return project


def owns_project(db: Connection, caller: Caller, project_id: int) -> bool:
    """Tell whether the project that a row points to is the caller's own."""
    return project_by_id(db, project_id).entity == caller.user.name


def list_projects(db: Connection, caller: Caller, entity: str | None) -> list[Project]:
    """Return a caller's projects, newest first."""
    if (entity or caller.user.name) != caller.user.name:
        return []
    return select(db, Project, "projects WHERE entity = ? ORDER BY id DESC", [caller.user.name])
