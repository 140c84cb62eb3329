"""Versions of artifacts, and which runs made and used them.

A version is pending, without a number, until all of it is there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

from deployer.backend.db.artifacts.collections import Collection
from deployer.backend.db.database import Connection, delete, insert, select, select_one, update
from deployer.backend.db.runs.runs import Run, may_write
from deployer.backend.db.users.accounts import Caller
from deployer.backend.refusal import Refusal, not_found

Role = Literal["output", "input"]

PATCH = "PATCH"  # the type of a manifest that one of several runs adds
VERSION = re.compile(r"v(\d+)")
# How long nothing may come for a version that was begun, until it is given up.
PENDING_SECONDS = 3 * 24 * 3600


@dataclass(frozen=True)
class Artifact:
    """One version; `metadata` is JSON text, `tags` and `wanted_aliases` are JSON lists.

    `manifest_md5` is what the client says its manifest will be, `base_id` the version that an
    incremental one, or a patch by one of several runs, adds to.
    """

    id: int
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
    manifest_md5: str | None
    manifest_blob_id: int | None
    base_id: int | None
    history_step: int | None
    size_bytes: int
    file_count: int
    created_at: float
    updated_at: float

    @property
    def committed(self) -> bool:
        """Tell whether all of it is there."""
        return self.version is not None

    @property
    def tag_names(self) -> list[str]:
        """Return the version's tags."""
        names: list[str] = json.loads(self.tags)
        return names


def create_artifact(
    db: Connection, collection: Collection, user_id: int, now: float, **columns: object
) -> Artifact:
    """Begin a version."""
    times = {"created_at": now, "updated_at": now}
    owner = {"collection_id": collection.id, "user_id": user_id}
    return artifact_by_id(db, insert(db, "artifacts", **owner, **times, **columns))


def artifact_by_id(db: Connection, artifact_id: int) -> Artifact:
    """Return a version, pending or committed; refuse with 404 if there is none."""
    found = select_one(db, Artifact, "artifacts WHERE id = ?", artifact_id)
    if found is None:
        raise not_found("artifact")
    return found


def find_same(db: Connection, collection: Collection, digest: str) -> Artifact | None:
    """Return the newest committed version of the same content."""
    tail = (
        "artifacts WHERE collection_id = ? AND digest = ? AND version IS NOT NULL"
        " ORDER BY version DESC"
    )
    return select_one(db, Artifact, tail, collection.id, digest)


def find_pending(db: Connection, collection: Collection, digest: str) -> Artifact | None:
    """Return a pending version of the same content."""
    tail = "artifacts WHERE collection_id = ? AND digest = ? AND version IS NULL ORDER BY id"
    return select_one(db, Artifact, tail, collection.id, digest)


def find_begun(db: Connection, collection: Collection, client_id: str | None) -> Artifact | None:
    """Return the version that a client's object began or logged, as a repeated request asks for."""
    tail = "artifacts WHERE collection_id = ? AND client_id = ?"
    return select_one(db, Artifact, tail, collection.id, client_id) if client_id else None


def find_shared(db: Connection, collection: Collection, client_id: str) -> Artifact | None:
    """Return the pending version that several runs write under one `distributed_id`."""
    tail = "artifacts WHERE collection_id = ? AND client_id = ? AND version IS NULL"
    return select_one(db, Artifact, tail, collection.id, client_id)


def list_patches(db: Connection, row: Artifact) -> list[Artifact]:
    """Return what runs have added to a version that they write together, oldest first."""
    tail = "artifacts WHERE collection_id = ? AND base_id = ? AND manifest_type = ? ORDER BY id"
    found = select(db, Artifact, tail, (row.collection_id, row.id, PATCH))
    return [one for one in found if one.manifest_md5]  # else nothing was written after all


def find_by_client_id(db: Connection, caller: Caller, client_id: str) -> Artifact | None:
    """Return the version that a client of the caller's made under its own id."""
    tail = "artifacts WHERE client_id = ? AND user_id = ? ORDER BY id DESC"
    return select_one(db, Artifact, tail, client_id, caller.user.id)


def find_version(db: Connection, collection: Collection, name: str) -> Artifact | None:
    """Return a committed version by `v<number>` or alias."""
    numbered = VERSION.fullmatch(name)
    if numbered:
        tail = "artifacts WHERE collection_id = ? AND version = ?"
        number = min(int(numbered[1][:19]), 2**63 - 1)  # SQLite's largest
        return select_one(db, Artifact, tail, collection.id, number)
    tail = (
        "artifacts WHERE id = (SELECT artifact_id FROM artifact_aliases"
        " WHERE collection_id = ? AND alias = ?)"
    )
    return select_one(db, Artifact, tail, collection.id, name)


def list_versions(db: Connection, collection: Collection) -> list[Artifact]:
    """Return the committed versions, newest first."""
    tail = "artifacts WHERE collection_id = ? AND version IS NOT NULL ORDER BY version DESC"
    return select(db, Artifact, tail, [collection.id])


def latest_version(db: Connection, collection: Collection) -> Artifact | None:
    """Return the newest committed version."""
    tail = "artifacts WHERE collection_id = ? AND version IS NOT NULL ORDER BY version DESC"
    return select_one(db, Artifact, tail, collection.id)


def change_artifact(db: Connection, row: Artifact, now: float, **changes: object) -> Artifact:
    """Set columns of a version and return it as it is now."""
    update(db, "artifacts", row.id, updated_at=now, **changes)
    return artifact_by_id(db, row.id)


def delete_artifact(db: Connection, row: Artifact) -> None:
    """Delete a version with its files and aliases."""
    delete(db, "artifacts", row.id)


def delete_abandoned(db: Connection, now: float) -> None:
    """Delete versions that have been pending for PENDING_SECONDS without a change."""
    last = now - PENDING_SECONDS
    db.execute("DELETE FROM artifacts WHERE version IS NULL AND updated_at < ?", (last,))


def record_role(db: Connection, run: Run, row: Artifact, role: Role) -> None:
    """Note that a run made or used a version; noting it again changes nothing."""
    db.execute(
        "INSERT OR IGNORE INTO artifact_runs (run_id, artifact_id, role) VALUES (?, ?, ?)",
        (run.id, row.id, role),
    )


def list_artifacts_of(db: Connection, run: Run, role: Role) -> list[Artifact]:
    """Return the committed versions that a run made or used, oldest first."""
    tail = (
        "artifacts WHERE version IS NOT NULL AND id IN"
        " (SELECT artifact_id FROM artifact_runs WHERE run_id = ? AND role = ?) ORDER BY id"
    )
    return select(db, Artifact, tail, [run.id, role])


def list_makers(db: Connection, row: Artifact) -> list[Run]:
    """Return the runs that logged a version: the first, and those that logged the same content."""
    return _list_runs(db, row, "output")


def check_deletable(db: Connection, caller: Caller, row: Artifact) -> None:
    """Refuse with 403 an agent's key on what others made, too: same content is one version."""
    if caller.sweep_id is None:
        return
    if row.run_id is None or not all(may_write(db, caller, run) for run in list_makers(db, row)):
        raise Refusal(403, "an agent's key cannot delete artifacts of others")


def list_users(db: Connection, row: Artifact) -> list[Run]:
    """Return the runs that used a version, oldest first."""
    return _list_runs(db, row, "input")


def _list_runs(db: Connection, row: Artifact, role: Role) -> list[Run]:
    tail = (
        "runs WHERE id IN (SELECT run_id FROM artifact_runs"
        " WHERE artifact_id = ? AND role = ?) ORDER BY id"
    )
    return select(db, Run, tail, [row.id, role])
