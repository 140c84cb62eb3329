"""Collections of artifacts and their types: listing, renaming, tagging, deleting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ariadne import InterfaceType, ObjectType, QueryType
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
from deployer.backend.graphql.artifact_fields import ARTIFACT_FIELDS, COLLECTION_FIELDS
from deployer.backend.graphql.filters import parse_filter
from deployer.backend.graphql.ordering import by_row, ordered_connection, parse_order
from deployer.backend.graphql.resolvers.artifact import find_named
from deployer.backend.graphql.resolvers.project import project
from deployer.backend.graphql.resolvers.wire import (
    Info,
    connection,
    decode_id,
    encode_id,
    iso_time,
    tag_nodes,
    transaction,
)
from deployer.backend.refusal import not_found

query = QueryType()
kind = ObjectType("ArtifactType")
collection = InterfaceType("ArtifactCollection", lambda *_: "ArtifactSequence")
sequence = ObjectType("ArtifactSequence")


@dataclass(frozen=True)
class Deleted:
    """What the reply says of a deleted collection."""

    collection: Collection


def own_collection(db: Connection, caller: Caller, text: str) -> Collection:
    """Return a collection by its opaque id; refuse with 404 another user's."""
    row = get(db, Collection, decode_id("ArtifactCollection", text))
    if not owns_project(db, caller, row.project_id):
        raise not_found("artifact collection")
    return row


@query.field("artifactCollection")
def resolve_collection(_: Any, info: Info, id: str) -> Collection:
    with transaction(info) as db:
        return own_collection(db, info.context.caller, id)


@project.field("artifactCollection")
def resolve_project_collection(row: Project, info: Info, name: str) -> Collection | None:
    with transaction(info) as db:
        return find(db, Collection, project_id=row.id, name=name)


@project.field("artifactCollections")
def resolve_project_collections(row: Project, info: Info, **asked: Any) -> dict[str, Any]:
    with transaction(info) as db:
        return _collection_page(find_all(db, Collection, "id DESC", project_id=row.id), **asked)


def _collection_page(
    rows: list[Collection],
    after: str | None = None,
    first: int | None = None,
    filters: str | None = None,
    order: str | None = None,
) -> dict[str, Any]:
    """Return one page, newest first unless another order is asked for."""
    passes = parse_filter(filters, COLLECTION_FIELDS)
    wanted = parse_order(order, COLLECTION_FIELDS) if order else by_row(descending=True)
    return ordered_connection([row for row in rows if passes(row)], wanted, after, first)


@project.field("artifactType")
def resolve_artifact_type(row: Project, info: Info, name: str) -> ArtifactType | None:
    """Find a type; one that does not exist has no collections, and is no error."""
    with transaction(info) as db:
        found = find(db, ArtifactType, project_id=row.id, name=name)
    if found is None and _asked_fields(info) == {"artifactCollections"}:
        return ArtifactType(0, row.id, name, row.created_at)
    return found


def _asked_fields(info: Info) -> set[str]:
    """Return the fields that the query asks of a resolver's result, without `__typename`."""
    asked = info.field_nodes[0].selection_set
    nodes = asked.selections if asked else ()
    return {node.name.value for node in nodes if isinstance(node, FieldNode)} - {"__typename"}


@project.field("artifactTypes")
def resolve_artifact_types(
    row: Project, info: Info, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    with transaction(info) as db:
        return connection(find_all(db, ArtifactType, "name", project_id=row.id), after, first)


@kind.field("id")
def resolve_type_id(row: ArtifactType, _: Info) -> str:
    return encode_id("ArtifactType", row.id)


@kind.field("createdAt")
def resolve_type_created_at(row: ArtifactType, _: Info) -> str | None:
    return iso_time(row.created_at)


@kind.field("artifact")
def resolve_type_artifact(row: ArtifactType, info: Info, name: str) -> Artifact | None:
    with transaction(info) as db:
        found = find_named(db, get(db, Project, row.project_id), name)
        if found and get(db, Collection, found.collection_id).type != row.name:
            return None
    return found


@kind.field("artifactCollection")
def resolve_type_collection(row: ArtifactType, info: Info, name: str) -> Collection | None:
    with transaction(info) as db:
        found = find(db, Collection, project_id=get(db, Project, row.project_id).id, name=name)
    return found if found and found.type == row.name else None


@kind.field("artifactCollections")
def resolve_type_collections(row: ArtifactType, info: Info, **asked: Any) -> dict[str, Any]:
    with transaction(info) as db:
        found = find_all(
            db, Collection, "id DESC", project_id=get(db, Project, row.project_id).id, type=row.name
        )
    return _collection_page(found, **asked)


@collection.field("id")
def resolve_id(row: Collection, _: Info) -> str:
    return encode_id("ArtifactCollection", row.id)


@collection.field("state")
def resolve_state(row: Collection | Deleted, _: Info) -> str:
    return "DELETED" if isinstance(row, Deleted) else "READY"


@collection.field("createdAt")
def resolve_created_at(row: Collection, _: Info) -> str | None:
    return iso_time(row.created_at)


@collection.field("updatedAt")
def resolve_updated_at(row: Collection, _: Info) -> str | None:
    return iso_time(row.updated_at)


@collection.field("project")
def resolve_project(row: Collection, info: Info) -> Project:
    with transaction(info) as db:
        return get(db, Project, row.project_id)


@collection.field("defaultArtifactType")
def resolve_default_type(row: Collection, info: Info) -> ArtifactType | None:
    with transaction(info) as db:
        return type_of(db, row)


@collection.field("tags")
def resolve_tags(row: Collection, _: Info) -> dict[str, Any]:
    return {"edges": [{"node": tag} for tag in collection_tags(row)]}


def collection_tags(row: Collection) -> list[dict[str, str]]:
    """Return a collection's tags as W&B's type `Tag`."""
    return tag_nodes(f"CollectionTag:{row.id}", row.tag_names)


@collection.field("aliases")
def resolve_aliases(
    row: Collection, info: Info, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    with transaction(info) as db:
        return connection(find_all(db, Alias, "alias", collection_id=row.id), after, first)


@collection.field("artifacts")
def resolve_artifacts(
    row: Collection,
    info: Info,
    after: str | None = None,
    first: int | None = None,
    order: str | None = None,
    filters: str | None = None,
) -> dict[str, Any]:
    """List the versions, newest first unless another order is asked for."""
    passes = parse_filter(filters, ARTIFACT_FIELDS)
    wanted = parse_order(order or "-version", ARTIFACT_FIELDS)
    with transaction(info) as db:
        found = [version for version in list_versions(db, row.id) if passes(version)]
    page = ordered_connection(found, wanted, after, first)
    for edge in page["edges"]:
        edge["version"] = f"v{edge['node'].version}"
    return page


@collection.field("artifactMembership")
def resolve_membership(row: Collection, info: Info, alias_name: str) -> Artifact | None:
    with transaction(info) as db:
        return find_version(db, row, alias_name)


@sequence.field("latestArtifact")
def resolve_latest(row: Collection, info: Info) -> Artifact | None:
    with transaction(info) as db:
        return latest_version(db, row.id)
