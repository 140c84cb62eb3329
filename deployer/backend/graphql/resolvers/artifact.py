"""Versions of artifacts: finding and reading them."""

from __future__ import annotations

from typing import Any

from deployer.backend.db.accounts import Caller, User
from deployer.backend.db.artifacts import (
    Alias,
    Artifact,
    Collection,
    find_collection_made_as,
    find_version,
    list_artifacts_of,
    list_runs_of,
    type_of,
)
from deployer.backend.db.files import File, list_artifact_files
from deployer.backend.db.projects import Project, owns_project
from deployer.backend.db.rows import Connection, find, find_all, get
from deployer.backend.db.runs import Run
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.listing import page_of
from deployer.backend.graphql.resolvers.file_nodes import artifact_file_node, manifest_node
from deployer.backend.graphql.resolvers.wire import (
    Info,
    decode_id,
    encode_id,
    tag_nodes,
)
from deployer.backend.refusal import not_found
from deployer.backend.storage.artifact_commit import commit_hash

NO_TTL = -2  # W&B's word for "is kept until somebody deletes it"
LATEST_VERSION = "latest"

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
        # There are no links here: a version is in its own collection alone.
        "Artifact.artifactMemberships": lambda _, row: [row],
        "ArtifactCollectionMembership.artifact": lambda _, row: row,
        "ArtifactCollectionMembership.artifactCollection": lambda db, row: _collection(db, row),
        "ArtifactCollectionMembership.versionIndex": lambda _, row: row.version,
        "ArtifactCollectionMembership.aliases": lambda db, row: find_all(
            db, Alias, artifact_id=row.id
        ),
        "ArtifactAlias.artifactCollection": lambda db, alias: _collection(db, alias),
    }
)


def own_artifact(db: Connection, caller: Caller, text: str) -> Artifact:
    """Return a version by its opaque id; refuse with 404 another user's."""
    row = get(db, Artifact, decode_id("Artifact", text))
    collection = get(db, Collection, row.collection_id)
    if not owns_project(db, caller, collection.project_id):
        raise not_found("artifact")
    return row


def _collection(db: Connection, row: Artifact | Alias) -> Collection:
    return get(db, Collection, row.collection_id)


def find_named(db: Connection, row: Project, name: str) -> Artifact | None:
    """Return the version of `collection:alias`, the newest without an alias."""
    collection_name, _, wanted = name.partition(":")
    collection = find(db, Collection, project_id=row.id, name=collection_name)
    return find_version(db, collection, wanted or LATEST_VERSION) if collection else None


@resolvers.field("Query.artifact")
def resolve_artifact(_: Any, info: Info, id: str) -> Artifact | None:
    return own_artifact(info.context.db, info.context.caller, id)


@resolvers.field("Query.clientIDMapping")
def resolve_client_id(_: Any, info: Info, client_id: str) -> dict[str, str] | None:
    """Return our id of an artifact that a client refers to by its own id."""
    db = info.context.db
    if made := find(
        db, Artifact, "id DESC", client_id=client_id, user_id=info.context.caller.user.id
    ):
        return {"server_id": encode_id("Artifact", made.id)}
    collection = find_collection_made_as(db, info.context.caller, client_id)
    return {"server_id": encode_id("ArtifactCollection", collection.id)} if collection else None


@resolvers.field("Artifact.createdBy")
def resolve_created_by(row: Artifact, info: Info) -> Run | User | None:
    db = info.context.db
    if row.run_id is not None:
        return get(db, Run, row.run_id)
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
    """Return one page of files, whose addresses are signed."""
    page = page_of(found, "+name", after, first)
    for edge in page["edges"]:
        edge["node"] = artifact_file_node(info.context, edge["node"], row)
    return page


@resolvers.field("Run.outputArtifacts")
def resolve_outputs(
    row: Run, info: Info, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    return page_of(list_artifacts_of(info.context.db, row, "output"), "+id", after, first)


@resolvers.field("Run.inputArtifacts")
def resolve_inputs(
    row: Run, info: Info, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    return page_of(list_artifacts_of(info.context.db, row, "input"), "+id", after, first)
