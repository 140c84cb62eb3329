"""Collections of artifacts: a name and a type in a project, under which versions are numbered.

A type is made with its first collection, and stays when its last one is deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from deployer.backend.db.database import Connection, delete, insert, select, select_one, update
from deployer.backend.db.projects import Project, project_by_id
from deployer.backend.db.users.accounts import Caller
from deployer.backend.refusal import Refusal, not_found

LONGEST_NAME = 128


@dataclass(frozen=True)
class Collection:
    """W&B's artifact sequence; `tags` is a JSON list."""

    id: int
    project_id: int
    name: str
    type: str
    description: str | None
    tags: str
    next_version: int
    client_id: str | None
    created_at: float
    updated_at: float

    @property
    def tag_names(self) -> list[str]:
        """Return the collection's own tags, in the order in which they were added."""
        names: list[str] = json.loads(self.tags)
        return names


@dataclass(frozen=True)
class ArtifactType:
    """A type of a project, which stays when its last collection goes."""

    id: int
    project_id: int
    name: str
    created_at: float


def check_label(kind: str, name: str) -> str:
    """Return a name; refuse with 400 one that would not fit into `entity/project/name:alias`."""
    bad = set(name) & set("/:\\") or not name.isprintable() or name in ("", ".", "..")
    if bad or len(name) > LONGEST_NAME:
        raise Refusal(400, f"invalid artifact {kind} {name[:LONGEST_NAME]!r}")
    return name


def find_collection(db: Connection, project: Project, name: str) -> Collection | None:
    """Return a project's collection."""
    tail = "artifact_collections WHERE project_id = ? AND name = ?"
    return select_one(db, Collection, tail, project.id, name)


def collection_by_id(db: Connection, collection_id: int) -> Collection:
    """Return a collection; refuse with 404 if there is none."""
    found = select_one(db, Collection, "artifact_collections WHERE id = ?", collection_id)
    if found is None:
        raise not_found("artifact collection")
    return found


def find_by_client_id(db: Connection, caller: Caller, client_id: str) -> Collection | None:
    """Return the collection that a client of the caller's made under its own id."""
    own = "project_id IN (SELECT id FROM projects WHERE user_id = ?)"
    tail = f"artifact_collections WHERE client_id = ? AND {own}"
    return select_one(db, Collection, tail, client_id, caller.user.id)


def list_collections(
    db: Connection, project: Project, type_name: str | None = None
) -> list[Collection]:
    """Return a project's collections, newest first, of one type or of all."""
    if type_name is None:
        tail, values = "project_id = ?", [project.id]
        return select(db, Collection, f"artifact_collections WHERE {tail} ORDER BY id DESC", values)
    tail = "artifact_collections WHERE project_id = ? AND type = ? ORDER BY id DESC"
    return select(db, Collection, tail, [project.id, type_name])


def list_types(db: Connection, project: Project) -> list[ArtifactType]:
    """Return the types that a project has had artifacts of, by name."""
    return select(
        db, ArtifactType, "artifact_types WHERE project_id = ? ORDER BY name", [project.id]
    )


def find_type(db: Connection, project: Project, name: str) -> ArtifactType | None:
    """Return a project's type, or None if it never had a collection."""
    return next((found for found in list_types(db, project) if found.name == name), None)


def type_of(db: Connection, row: Collection) -> ArtifactType | None:
    """Return a collection's type."""
    return find_type(db, project_by_id(db, row.project_id), row.type)


def ensure_collection(
    db: Connection, project: Project, name: str, type_name: str, client_id: str | None, now: float
) -> Collection:
    """Return a collection, made if there is none; refuse another type with 400."""
    found = find_collection(db, project, check_label("name", name))
    if found is None:
        columns = {"type": check_label("type", type_name), "client_id": client_id}
        times = {"created_at": now, "updated_at": now}
        insert(db, "artifact_collections", project_id=project.id, name=name, **columns, **times)
        return ensure_collection(db, project, name, type_name, client_id, now)
    if found.type != type_name:
        raise Refusal(
            400, f"artifact {name} already exists with type {found.type}; cannot use {type_name}"
        )
    return found


def change_collection(db: Connection, row: Collection, now: float, **changes: object) -> Collection:
    """Set columns of a collection and return it as it is now."""
    update(db, "artifact_collections", row.id, updated_at=now, **changes)
    return collection_by_id(db, row.id)


def rename_collection(
    db: Connection, project: Project, row: Collection, name: str, now: float
) -> Collection:
    """Give a collection another name; refuse with 400 one that is taken."""
    taken = find_collection(db, project, check_label("name", name))
    if taken and taken.id != row.id:
        raise Refusal(400, f"artifact {name} already exists")
    return change_collection(db, row, now, name=name)


def change_tags(tags: Iterable[str], add: Iterable[str], remove: Iterable[str]) -> str:
    """Return tags as a JSON list, with some added and some removed."""
    gone = set(remove)
    return json.dumps([tag for tag in dict.fromkeys([*tags, *add]) if tag not in gone])


def take_version(db: Connection, row: Collection) -> int:
    """Return the number of the collection's next version; no number is given twice."""
    number = collection_by_id(db, row.id).next_version
    update(db, "artifact_collections", row.id, next_version=number + 1)
    return number


def delete_collection(db: Connection, row: Collection) -> None:
    """Delete a collection with all its versions and aliases."""
    delete(db, "artifact_collections", row.id)
