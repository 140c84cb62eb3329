"""Queries of artifacts: versions, collections and types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphql.language import FieldNode

from deployer.backend.db.accounts import Caller, ProjectRow, User, owns_project
from deployer.backend.db.artifacts import (
    LATEST,
    Alias,
    Artifact,
    ArtifactType,
    Collection,
    find_collection_made_as,
    find_version,
    latest_version,
    list_artifacts_of,
    list_runs_of,
    list_versions,
    type_of,
)
from deployer.backend.db.files import File, list_artifact_files
from deployer.backend.db.rows import Connection, find, find_all, get
from deployer.backend.db.runs import RunRow
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.filters import Filter
from deployer.backend.graphql.listing import (
    ARTIFACT_FIELDS,
    COLLECTION_FIELDS,
    Info,
    decode_id,
    encode_id,
    page_of,
    tag_nodes,
)
from deployer.backend.graphql.resolvers.files import artifact_file_node, manifest_node
from deployer.backend.request import not_found
from deployer.backend.storage.artifact_commit import commit_hash

NO_TTL = -2  # W&B's code for "kept until deleted"
resolvers = Resolvers(
    {
        "Project.artifact": lambda db, project, name, **_: find_named(db, project, name),
        "Project.artifactCollectionMembership": lambda db, project, name: find_named(
            db, project, name
        ),
        "Artifact.artifactSequence": lambda db, row: _collection(db, row),
        "Artifact.artifactType": lambda db, row: type_of(db, _collection(db, row)),
        "Artifact.versionIndex": lambda _, row: row.version,
        "Artifact.size": lambda _, row: row.size_bytes,
        "Artifact.ttlDurationSeconds": lambda *_: NO_TTL,
        "Artifact.ttlIsInherited": lambda *_: True,
        "Artifact.tags": lambda _, row: tag_nodes(f"Tag:{row.id}", row.tag_names),
        "Artifact.aliases": lambda db, row: find_all(db, Alias, artifact_id=row.id),
        "Artifact.state": lambda _, row: "COMMITTED" if row.committed else "PENDING",
        "Artifact.commitHash": lambda _, row: commit_hash(row) if row.committed else None,
        "Artifact.usedBy": lambda db, row: list_runs_of(db, row, "input"),
        # There are no links: a version is only in its own collection.
        "Artifact.artifactMemberships": lambda _, row: [row],
        "ArtifactCollectionMembership.artifact": lambda _, row: row,
        "ArtifactCollectionMembership.artifactCollection": lambda db, row: _collection(db, row),
        "ArtifactCollectionMembership.versionIndex": lambda _, row: row.version,
        "ArtifactCollectionMembership.aliases": lambda db, row: find_all(
            db, Alias, artifact_id=row.id
        ),
        "ArtifactAlias.artifactCollection": lambda db, alias: _collection(db, alias),
        "Project.artifactCollection": lambda db, project, name: find(
            db, Collection, project_id=project.id, name=name
        ),
        "Project.artifactTypes": lambda db, project: find_all(
            db, ArtifactType, "name", project_id=project.id
        ),
        "ArtifactSequence.id": lambda _, row: encode_id("ArtifactCollection", row.id),
        "ArtifactSequence.state": lambda _, row: "DELETED" if isinstance(row, Deleted) else "READY",
        "ArtifactSequence.project": lambda db, row: get(db, ProjectRow, row.project_id),
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


def own_artifact(db: Connection, caller: Caller, text: str) -> Artifact:
    """Return a version by its opaque id; refuse another user's with 404."""
    row = get(db, Artifact, decode_id("Artifact", text))
    collection = get(db, Collection, row.collection_id)
    if not owns_project(db, caller, collection.project_id):
        raise not_found("artifact")
    return row


def _collection(db: Connection, row: Artifact | Alias) -> Collection:
    return get(db, Collection, row.collection_id)


def find_named(db: Connection, row: ProjectRow, name: str) -> Artifact | None:
    """Return the version of `collection:alias`; the newest if there is no alias."""
    collection_name, _, wanted = name.partition(":")
    collection = find(db, Collection, project_id=row.id, name=collection_name)
    return find_version(db, collection, wanted or LATEST) if collection else None


@resolvers.field("Query.artifact")
def resolve_artifact(_: Any, info: Info, id: str) -> Artifact | None:
    return own_artifact(info.context.db, info.context.caller, id)


@resolvers.field("Query.clientIDMapping")
def resolve_client_id(_: Any, info: Info, client_id: str) -> dict[str, str] | None:
    db = info.context.db
    if made := find(
        db, Artifact, "id DESC", client_id=client_id, user_id=info.context.caller.user.id
    ):
        return {"server_id": encode_id("Artifact", made.id)}
    collection = find_collection_made_as(db, info.context.caller, client_id)
    return {"server_id": encode_id("ArtifactCollection", collection.id)} if collection else None


@resolvers.field("Artifact.createdBy")
def resolve_created_by(row: Artifact, info: Info) -> RunRow | User | None:
    db = info.context.db
    if row.run_id is not None:
        return get(db, RunRow, row.run_id)
    return find(db, User, id=row.user_id)


@resolvers.field("Artifact.currentManifest")
def resolve_manifest(row: Artifact, info: Info) -> dict[str, Any] | None:
    file = find(info.context.db, File, artifact_id=row.id, manifest=1)
    return manifest_node(info.context, row, file) if row.committed and file else None


@resolvers.field("Artifact.files")
@resolvers.field("ArtifactCollectionMembership.files")
def resolve_files(
    row: Artifact,
    info: Info,
    names: list[str] | None = None,
    after: str | None = None,
    first: int | None = None,
) -> dict[str, Any]:
    found = list_artifact_files(info.context.db, row)
    if names:
        found = [file for file in found if file.name in names]
    return _file_page(info, row, found, after, first)


@resolvers.field("Artifact.filesByManifestEntries")
def resolve_files_by_entries(
    row: Artifact, info: Info, entries: list[dict[str, Any]] | None = None, **_: Any
) -> dict[str, Any]:
    wanted = {entry["name"] for entry in entries or []}
    found = [file for file in list_artifact_files(info.context.db, row) if file.name in wanted]
    return _file_page(info, row, found, None, len(found))


def _file_page(
    info: Info, row: Artifact, found: list[File], after: str | None, first: int | None
) -> dict[str, Any]:
    page = page_of(found, "+name", after, first)
    for edge in page["edges"]:
        edge["node"] = artifact_file_node(info.context, edge["node"], row)
    return page


@resolvers.field("Run.outputArtifacts")
def resolve_outputs(
    row: RunRow, info: Info, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    return page_of(list_artifacts_of(info.context.db, row, "output"), "+id", after, first)


@resolvers.field("Run.inputArtifacts")
def resolve_inputs(
    row: RunRow, info: Info, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    return page_of(list_artifacts_of(info.context.db, row, "input"), "+id", after, first)


@dataclass(frozen=True)
class Deleted(Collection):
    """A collection that this request has just deleted."""


def own_collection(db: Connection, caller: Caller, text: str) -> Collection:
    """Return a collection by its opaque id; refuse another user's with 404."""
    row = get(db, Collection, decode_id("ArtifactCollection", text))
    if not owns_project(db, caller, row.project_id):
        raise not_found("artifact collection")
    return row


@resolvers.field("Query.artifactCollection")
def resolve_collection(_: Any, info: Info, id: str) -> Collection:
    return own_collection(info.context.db, info.context.caller, id)


@resolvers.field("Project.artifactCollections")
def resolve_project_collections(row: ProjectRow, info: Info, **asked: Any) -> dict[str, Any]:
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
    """Return one page, by default newest first."""
    wanted = Filter(filters, COLLECTION_FIELDS)
    found = [row for row in rows if wanted.passes(row)]
    return page_of(found, order or "-id", after, first, COLLECTION_FIELDS)


@resolvers.field("Project.artifactType")
def resolve_artifact_type(row: ProjectRow, info: Info, name: str) -> ArtifactType | None:
    """Find a type; a query for only its collections gets an empty type if it does not exist."""
    found = find(info.context.db, ArtifactType, project_id=row.id, name=name)
    if found is None and _asked_fields(info) == {"artifactCollections"}:
        return ArtifactType(0, row.id, name, row.created_at)
    return found


def _asked_fields(info: Info) -> set[str]:
    """Return the fields that the query selects from a resolver's result, without `__typename`."""
    asked = info.field_nodes[0].selection_set
    nodes = asked.selections if asked else ()
    return {node.name.value for node in nodes if isinstance(node, FieldNode)} - {"__typename"}


@resolvers.field("ArtifactType.artifact")
def resolve_type_artifact(row: ArtifactType, info: Info, name: str) -> Artifact | None:
    db = info.context.db
    found = find_named(db, get(db, ProjectRow, row.project_id), name)
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
    """List the versions, by default newest first."""
    wanted = Filter(filters, ARTIFACT_FIELDS)
    found = [
        version for version in list_versions(info.context.db, row.id) if wanted.passes(version)
    ]
    page = page_of(found, order or "-version", after, first, ARTIFACT_FIELDS)
    for edge in page["edges"]:
        edge["version"] = f"v{edge['node'].version}"
    return page
