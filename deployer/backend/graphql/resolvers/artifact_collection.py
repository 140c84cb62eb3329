"""Collections of artifacts and their types: listing, renaming, tagging, deleting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphql.language import FieldNode

from deployer.backend.db.accounts import Caller
from deployer.backend.db.artifacts import (
    Alias,
    Artifact,
    ArtifactType,
    Collection,
    find_version,
    latest_version,
    list_versions,
    type_of,
)
from deployer.backend.db.projects import Project, owns_project
from deployer.backend.db.rows import Connection, find, find_all, get
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.filters import Filter
from deployer.backend.graphql.listing import ARTIFACT_FIELDS, COLLECTION_FIELDS, page_of
from deployer.backend.graphql.resolvers.artifact import find_named
from deployer.backend.graphql.resolvers.wire import (
    Info,
    decode_id,
    encode_id,
    tag_nodes,
)
from deployer.backend.refusal import not_found

resolvers = Resolvers(
    {
        "Project.artifactCollection": lambda db, project, name: find(
            db, Collection, project_id=project.id, name=name
        ),
        "Project.artifactTypes": lambda db, project: find_all(
            db, ArtifactType, "name", project_id=project.id
        ),
        "ArtifactSequence.id": lambda _, row: encode_id("ArtifactCollection", row.id),
        "ArtifactSequence.state": lambda _, row: "DELETED" if isinstance(row, Deleted) else "READY",
        "ArtifactSequence.project": lambda db, row: get(db, Project, row.project_id),
        "ArtifactSequence.defaultArtifactType": type_of,
        "ArtifactSequence.tags": lambda _, row: collection_tags(row),
        "ArtifactSequence.aliases": lambda db, row: find_all(
            db, Alias, "alias", collection_id=row.id
        ),
        "ArtifactSequence.artifactMembership": lambda db, row, alias_name: find_version(
            db, row, alias_name
        ),
        "ArtifactSequence.latestArtifact": lambda db, row: latest_version(db, row.id),
    }
)


@dataclass(frozen=True)
class Deleted(Collection):
    """A collection that this very request has deleted."""


def own_collection(db: Connection, caller: Caller, text: str) -> Collection:
    """Return a collection by its opaque id; refuse with 404 another user's."""
    row = get(db, Collection, decode_id("ArtifactCollection", text))
    if not owns_project(db, caller, row.project_id):
        raise not_found("artifact collection")
    return row


@resolvers.field("Query.artifactCollection")
def resolve_collection(_: Any, info: Info, id: str) -> Collection:
    return own_collection(info.context.db, info.context.caller, id)


@resolvers.field("Project.artifactCollections")
def resolve_project_collections(row: Project, info: Info, **asked: Any) -> dict[str, Any]:
    return _collection_page(
        find_all(info.context.db, Collection, "id DESC", project_id=row.id), **asked
    )


def _collection_page(
    rows: list[Collection],
    after: str | None = None,
    first: int | None = None,
    filters: str | None = None,
    order: str | None = None,
) -> dict[str, Any]:
    """Return one page, newest first unless another order is asked for."""
    wanted = Filter(filters, COLLECTION_FIELDS)
    found = [row for row in rows if wanted.passes(row)]
    return page_of(found, order or "-id", after, first, COLLECTION_FIELDS)


@resolvers.field("Project.artifactType")
def resolve_artifact_type(row: Project, info: Info, name: str) -> ArtifactType | None:
    """Find a type; one that does not exist has no collections, and is no error."""
    found = find(info.context.db, ArtifactType, project_id=row.id, name=name)
    if found is None and _asked_fields(info) == {"artifactCollections"}:
        return ArtifactType(0, row.id, name, row.created_at)
    return found


def _asked_fields(info: Info) -> set[str]:
    """Return the fields that the query asks of a resolver's result, without `__typename`."""
    asked = info.field_nodes[0].selection_set
    nodes = asked.selections if asked else ()
    return {node.name.value for node in nodes if isinstance(node, FieldNode)} - {"__typename"}


@resolvers.field("ArtifactType.artifact")
def resolve_type_artifact(row: ArtifactType, info: Info, name: str) -> Artifact | None:
    db = info.context.db
    found = find_named(db, get(db, Project, row.project_id), name)
    if found and get(db, Collection, found.collection_id).type != row.name:
        return None
    return found


@resolvers.field("ArtifactType.artifactCollection")
def resolve_type_collection(row: ArtifactType, info: Info, name: str) -> Collection | None:
    db = info.context.db
    found = find(db, Collection, project_id=row.project_id, name=name)
    return found if found and found.type == row.name else None


@resolvers.field("ArtifactType.artifactCollections")
def resolve_type_collections(row: ArtifactType, info: Info, **asked: Any) -> dict[str, Any]:
    db = info.context.db
    found = find_all(db, Collection, "id DESC", project_id=row.project_id, type=row.name)
    return _collection_page(found, **asked)


def collection_tags(row: Collection) -> list[dict[str, str]]:
    """Return a collection's tags as W&B's type `Tag`."""
    return tag_nodes(f"CollectionTag:{row.id}", row.tag_names)


@resolvers.field("ArtifactSequence.artifacts")
def resolve_artifacts(
    row: Collection,
    info: Info,
    after: str | None = None,
    first: int | None = None,
    order: str | None = None,
    filters: str | None = None,
) -> dict[str, Any]:
    """List the versions, newest first unless another order is asked for."""
    wanted = Filter(filters, ARTIFACT_FIELDS)
    found = [
        version for version in list_versions(info.context.db, row.id) if wanted.passes(version)
    ]
    page = page_of(found, order or "-version", after, first, ARTIFACT_FIELDS)
    for edge in page["edges"]:
        edge["version"] = f"v{edge['node'].version}"
    return page
