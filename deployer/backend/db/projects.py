"""Projects: made on first use, seen only by their entity's user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from deployer.backend.db.accounts import Caller, list_present_users
from deployer.backend.db.rows import Connection, Row, find, find_all, get, insert
from deployer.backend.refusal import Refusal, not_found

DEFAULT_PROJECT = "uncategorized"  # W&B's own name for a project that nobody named
LONGEST_NAME = 128


@dataclass(frozen=True)
class Project(Row):
    """A folder of sweeps and runs under one entity."""

    table: ClassVar = "projects"
    noun: ClassVar = "project"

    entity: str
    name: str
    user_id: int
    created_at: float


def check_label(what: str, name: str) -> str:
    """Return a name; refuse with 400 one that would not fit into `entity/project/name:alias`."""
    bad = set(name) & set("/:\\") or not name.isprintable() or name.strip() in ("", ".", "..")
    if bad or len(name) > LONGEST_NAME:
        said = f"at most {LONGEST_NAME} printable letters, without / : and \\"
        raise Refusal(400, f"invalid {what} {name[:LONGEST_NAME]!r}: {said}")
    return name


def find_project(
    db: Connection, caller: Caller, entity: str | None, name: str | None
) -> Project | None:
    """Return a project, or None if it is not there or not this caller's."""
    wanted = name or DEFAULT_PROJECT
    own = _is_own(db, caller, entity)
    return find(db, Project, entity=caller.user.name, name=wanted) if own else None


def _is_own(db: Connection, caller: Caller, entity: str | None) -> bool:
    """Return True for the caller's entity, and for any where there is no other user.

    Files and scripts that were written for W&B name teams, which are not here.
    """
    return entity in (None, "", caller.user.name) or len(list_present_users(db)) == 1


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

    Refuse with 403 an entity that may be another user's, and an agent that would make a project.
    """
    own = caller.user
    if not _is_own(db, caller, entity):
        raise Refusal(403, f"permission denied: entity {entity} is not {own.name}'s")
    project = find_project(db, caller, entity, name)
    if project:
        return project
    if caller.sweep_id is not None:
        raise Refusal(403, "an agent's key cannot make projects")
    columns = {"name": check_label("project name", name or DEFAULT_PROJECT), "created_at": now}
    return insert(db, Project, entity=own.name, user_id=own.id, **columns)


def owns_project(db: Connection, caller: Caller, project_id: int) -> bool:
    """Tell whether the project that a row points to is the caller's own."""
    return get(db, Project, project_id).entity == caller.user.name


def list_projects(db: Connection, caller: Caller, entity: str | None) -> list[Project]:
    """Return a caller's projects, newest first."""
    own = _is_own(db, caller, entity)
    return find_all(db, Project, "id DESC", entity=caller.user.name) if own else []
