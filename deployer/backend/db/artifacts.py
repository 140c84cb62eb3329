"""Artifacts: collections in a project, their versions, the aliases that point to versions.

A type is created with its first collection, and stays when its last one is deleted. A version is
pending and has no number until it is complete. `latest` is the alias of the newest version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from deployer.backend.db.accounts import Caller, ProjectRow, check_label
from deployer.backend.db.rows import (
    Connection,
    TableRow,
    change,
    delete,
    find,
    get,
    insert,
    select,
    select_one,
    update,
)
from deployer.backend.db.runs import RunRow, may_write
from deployer.backend.request import Refusal

ArtifactRole = Literal["output", "input"]

NAME, LATEST = "artifact name", "latest"
PATCH = "PATCH"  # the manifest type of a patch, which one of several runs adds
VERSION = re.compile(r"v(\d+)")
# A pending version without changes for this long is abandoned.
PENDING_SECONDS = 3 * 24 * 3600
NEWEST_FIRST = "WHERE collection_id = ? AND version IS NOT NULL ORDER BY version DESC"


@dataclass(frozen=True)
class ArtifactType(TableRow):
    """An artifact type of a project; stays when its last collection is deleted."""

    table: ClassVar = "artifact_types"
    noun: ClassVar = "artifact type"

    project_id: int
    name: str
    created_at: float


@dataclass(frozen=True)
class Collection(TableRow):
    """W&B's artifact sequence: a name and a type; `tags` is a JSON list."""

    table: ClassVar = "artifact_collections"
    noun: ClassVar = "artifact collection"

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
        names: list[str] = json.loads(self.tags)
        return names


@dataclass(frozen=True)
class Artifact(TableRow):
    """One version; `metadata` is JSON text, `tags` and `wanted_aliases` are JSON lists.

    `base_id` is the version that an incremental version, or a patch by one of several runs,
    extends.
    """

    table: ClassVar = "artifacts"
    noun: ClassVar = "artifact"

    collection_id: int
    user_id: int
    run_id: int | None
    version: int | None
    digest: str
    description: str | None
    metadata: str | None
    tags: str
    wanted_aliases: str
    client_id: str | None
    manifest_type: str
    base_id: int | None
    history_step: int | None
    size_bytes: int
    file_count: int
    created_at: float
    updated_at: float

    @property
    def committed(self) -> bool:
        return self.version is not None

    @property
    def tag_names(self) -> list[str]:
        names: list[str] = json.loads(self.tags)
        return names


@dataclass(frozen=True)
class Alias(TableRow):
    """A name that points to one version of its collection."""

    table: ClassVar = "artifact_aliases"
    noun: ClassVar = "artifact alias"

    collection_id: int
    artifact_id: int
    alias: str


def change_tags(tags: Iterable[str], add: Iterable[str], remove: Iterable[str]) -> str:
    gone = set(remove)
    return json.dumps([tag for tag in dict.fromkeys([*tags, *add]) if tag not in gone])


def find_collection_made_as(db: Connection, caller: Caller, client_id: str) -> Collection | None:
    tail = "WHERE client_id = ? AND project_id IN (SELECT id FROM projects WHERE user_id = ?)"
    return select_one(db, Collection, tail, client_id, caller.user.id)


def type_of(db: Connection, row: Collection) -> ArtifactType | None:
    return find(db, ArtifactType, project_id=row.project_id, name=row.type)


def ensure_collection(
    db: Connection,
    project: ProjectRow,
    name: str,
    type_name: str,
    client_id: str | None,
    now: float,
) -> Collection:
    """Return a collection, created if needed; refuse another type with 400."""
    found = find(db, Collection, project_id=project.id, name=check_label(NAME, name))
    if found is None:
        columns = {"type": check_label("artifact type", type_name), "client_id": client_id}
        times = {"created_at": now, "updated_at": now}
        return insert(db, Collection, project_id=project.id, name=name, **columns, **times)
    if found.type != type_name:
        raise Refusal(
            400, f"artifact {name} already exists with type {found.type}; cannot use {type_name}"
        )
    return found


def rename_collection(db: Connection, row: Collection, name: str, now: float) -> Collection:
    """Rename a collection; refuse a taken name with 400."""
    taken = find(db, Collection, project_id=row.project_id, name=check_label(NAME, name))
    if taken and taken.id != row.id:
        raise Refusal(400, f"artifact {name} already exists")
    return change(db, row, name=name, updated_at=now)


def take_version(db: Connection, collection_id: int) -> int:
    """Take the number of a collection's next version; numbers are never reused."""
    row = get(db, Collection, collection_id)
    update(db, row, next_version=row.next_version + 1)
    return row.next_version


def create_artifact(
    db: Connection, collection: Collection, user_id: int, now: float, **columns: object
) -> Artifact:
    times = {"created_at": now, "updated_at": now}
    return insert(db, Artifact, collection_id=collection.id, user_id=user_id, **times, **columns)


def find_same(db: Connection, collection: Collection, digest: str) -> Artifact | None:
    """Return the newest committed version with the same content."""
    tail = "WHERE collection_id = ? AND digest = ? AND version IS NOT NULL ORDER BY version DESC"
    return select_one(db, Artifact, tail, collection.id, digest)


def find_begun(db: Connection, collection: Collection, client_id: str | None) -> Artifact | None:
    """Return the version of a client's object, pending or committed, for repeated requests."""
    if not client_id:
        return None
    return find(db, Artifact, collection_id=collection.id, client_id=client_id)


def find_version(db: Connection, collection: Collection, name: str) -> Artifact | None:
    """Return a committed version by `v<number>` or alias."""
    numbered = VERSION.fullmatch(name)
    if numbered:
        number = min(int(numbered[1][:19]), 2**63 - 1)  # SQLite's largest
        return find(db, Artifact, collection_id=collection.id, version=number)
    alias = find(db, Alias, collection_id=collection.id, alias=name)
    return find(db, Artifact, id=alias.artifact_id) if alias else None


def list_versions(db: Connection, collection_id: int) -> list[Artifact]:
    return select(db, Artifact, NEWEST_FIRST, collection_id)


def latest_version(db: Connection, collection_id: int) -> Artifact | None:
    return select_one(db, Artifact, NEWEST_FIRST, collection_id)


def delete_abandoned(db: Connection, now: float) -> None:
    """Delete versions that have been pending for PENDING_SECONDS without a change."""
    last = now - PENDING_SECONDS
    db.execute("DELETE FROM artifacts WHERE version IS NULL AND updated_at < ?", (last,))


def remove_artifact(db: Connection, row: Artifact) -> None:
    """Delete a version; if it was `latest`, the newest remaining version becomes `latest`."""
    delete(db, row)
    newest = latest_version(db, row.collection_id)
    if newest:
        set_aliases(db, newest, [LATEST])


def check_deletable(db: Connection, caller: Caller, row: Artifact) -> None:
    """Refuse an agent's key with 403 unless only its runs logged the version's content."""
    if caller.sweep_id is None:
        return
    makers = list_runs_of(db, row, "output")
    if row.run_id is None or not all(may_write(db, caller, run) for run in makers):
        raise Refusal(403, "an agent's key cannot delete artifacts of others")


def check_alias(alias: str) -> str:
    """Return an alias; refuse an invalid one, or the name of a version, with 400."""
    if VERSION.fullmatch(check_label("artifact alias", alias)):
        raise Refusal(400, f"invalid artifact alias {alias!r}: it is the name of a version")
    return alias


def set_aliases(db: Connection, row: Artifact, aliases: Iterable[str]) -> None:
    """Point aliases to a version; move those of other versions."""
    db.executemany(
        "INSERT INTO artifact_aliases (collection_id, artifact_id, alias) VALUES (?, ?, ?)"
        " ON CONFLICT (collection_id, alias) DO UPDATE SET artifact_id = excluded.artifact_id",
        [(row.collection_id, row.id, check_alias(alias)) for alias in aliases],
    )


def remove_aliases(db: Connection, row: Artifact, aliases: Iterable[str]) -> None:
    db.executemany(
        "DELETE FROM artifact_aliases WHERE artifact_id = ? AND alias = ?",
        [(row.id, alias) for alias in aliases],
    )


def record_role(db: Connection, run: RunRow, row: Artifact, role: ArtifactRole) -> None:
    """Record that a run logged or used a version; idempotent."""
    db.execute(
        "INSERT OR IGNORE INTO artifact_runs (run_id, artifact_id, role) VALUES (?, ?, ?)",
        (run.id, row.id, role),
    )


def list_artifacts_of(db: Connection, run: RunRow, role: ArtifactRole) -> list[Artifact]:
    """Return the committed versions that a run logged or used, oldest first."""
    tail = (
        "WHERE version IS NOT NULL AND id IN"
        " (SELECT artifact_id FROM artifact_runs WHERE run_id = ? AND role = ?) ORDER BY id"
    )
    return select(db, Artifact, tail, run.id, role)


def list_runs_of(db: Connection, row: Artifact, role: ArtifactRole) -> list[RunRow]:
    """Return the runs that logged or used a version's content, oldest first."""
    tail = (
        "WHERE id IN (SELECT run_id FROM artifact_runs"
        " WHERE artifact_id = ? AND role = ?) ORDER BY id"
    )
    return select(db, RunRow, tail, row.id, role)
