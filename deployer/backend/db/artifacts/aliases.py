"""Aliases: names that point to one version of a collection each; `latest` follows the newest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deployer.backend.db.artifacts.collections import Collection, check_label, collection_by_id
from deployer.backend.db.artifacts.versions import (
    VERSION,
    Artifact,
    delete_artifact,
    latest_version,
)
from deployer.backend.db.database import Connection, select
from deployer.backend.refusal import Refusal

LATEST = "latest"


@dataclass(frozen=True)
class Alias:
    """A name for a version."""

    id: int
    collection_id: int
    artifact_id: int
    alias: str


def check_alias(alias: str) -> str:
    """Return an alias; refuse with 400 one that cannot stand after the colon of a name."""
    if VERSION.fullmatch(check_label("alias", alias)):
        raise Refusal(400, f"invalid artifact alias {alias!r}: it is the name of a version")
    return alias


def list_aliases(db: Connection, row: Artifact) -> list[Alias]:
    """Return a version's aliases, oldest first."""
    return select(db, Alias, "artifact_aliases WHERE artifact_id = ? ORDER BY id", [row.id])


def list_collection_aliases(db: Connection, collection: Collection) -> list[Alias]:
    """Return the aliases of all versions, by name."""
    tail = "artifact_aliases WHERE collection_id = ? ORDER BY alias"
    return select(db, Alias, tail, [collection.id])


def set_aliases(db: Connection, row: Artifact, aliases: Iterable[str]) -> None:
    """Point aliases at a version; those of another version move to this one."""
    db.executemany(
        "INSERT INTO artifact_aliases (collection_id, artifact_id, alias) VALUES (?, ?, ?)"
        " ON CONFLICT (collection_id, alias) DO UPDATE SET artifact_id = excluded.artifact_id",
        [(row.collection_id, row.id, check_alias(alias)) for alias in aliases],
    )


def remove_aliases(db: Connection, row: Artifact, aliases: Iterable[str]) -> None:
    """Take aliases from a version that has them."""
    db.executemany(
        "DELETE FROM artifact_aliases WHERE artifact_id = ? AND alias = ?",
        [(row.id, alias) for alias in aliases],
    )


def remove_artifact(db: Connection, row: Artifact) -> None:
    """Delete a version; if it was `latest`, the newest that is left becomes so."""
    delete_artifact(db, row)
    newest = latest_version(db, collection_by_id(db, row.collection_id))
    if newest:
        set_aliases(db, newest, [LATEST])
