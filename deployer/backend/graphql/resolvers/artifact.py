"""Versions of artifacts: finding and reading them."""

from __future__ import annotations

from typing import Any

from deployer.backend.db.accounts import Caller, User
from deployer.backend.db.artifacts import (
    Alias,
    Artifact,
    ArtifactType,
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
from deployer.backend.graphql.ordering import by_name, by_row, ordered_connection
from deployer.backend.graphql.resolvers.file_nodes import artifact_file_node, manifest_node
from deployer.backend.graphql.resolvers.wire import (
    Info,
    connection,
    decode_id,
    encode_id,
    tag_nodes,
    transaction,
)
from deployer.backend.refusal import not_found
from deployer.backend.storage.artifact_commit import commit_hash

resolvers = Resolvers(
    {
        "Artifact.versionIndex": lambda _, row: row.version,
        "Artifact.size": lambda _, row: row.size_bytes,
        "ArtifactCollectionMembership.versionIndex": lambda _, row: row.version,
    }
)

NO_TTL = -2  # W&B's word for "is kept until somebody deletes it"
LATEST_VERSION = "latest"


def own_artifact(db: Connection, caller: Caller, text: str) -> Artifact:
    """Return a version by its opaque id; refuse with 404 another user's."""
    row = get(db, Artifact, decode_id("Artifact", text))
    collection = get(db, Collection, row.collection_id)
    if not owns_project(db, caller, collection.project_id):
        raise not_found("artifact")
    return row


def find_named(db: Connection, row: Project, name: str) -> Artifact | None:
    """Return the version of `collection:alias`, the newest without an alias."""
    collection_name, _, wanted = name.partition(":")
    collection = find(db, Collection, project_id=row.id, name=collection_name)
    return find_version(db, collection, wanted or LATEST_VERSION) if collection else None


@resolvers.field("Query.artifact")
def resolve_artifact(_: Any, info: Info, id: str) -> Artifact | None:
    with transaction(info) as db:
        return own_artifact(db, info.context.caller, id)


@resolvers.field("Query.clientIDMapping")
def resolve_client_id(_: Any, info: Info, client_id: str) -> dict[str, str] | None:
    """Return our id of an artifact that a client refers to by its own id."""
    with transaction(info) as db:
        if made := find(
            db, Artifact, "id DESC", client_id=client_id, user_id=info.context.caller.user.id
        ):
            return {"server_id": encode_id("Artifact", made.id)}
        collection = find_collection_made_as(db, info.context.caller, client_id)
    return {"server_id": encode_id("ArtifactCollection", collection.id)} if collection else None


@resolvers.field("Project.artifact")
@resolvers.field("Project.artifactCollectionMembership")
def resolve_named(row: Project, info: Info, name: str, **_: Any) -> Artifact | None:
    with transaction(info) as db:
        return find_named(db, row, name)


@resolvers.field("Artifact.artifactSequence")
@resolvers.field("ArtifactCollectionMembership.artifactCollection")
def resolve_collection(row: Artifact, info: Info) -> Collection:
    with transaction(info) as db:
        return get(db, Collection, row.collection_id)


@resolvers.field("Artifact.artifactType")
def resolve_type(row: Artifact, info: Info) -> ArtifactType | None:
    with transaction(info) as db:
        return type_of(db, get(db, Collection, row.collection_id))


@resolvers.field("Artifact.ttlDurationSeconds")
def resolve_ttl(_: Artifact, __: Info) -> int:
    return NO_TTL


@resolvers.field("Artifact.ttlIsInherited")
def resolve_ttl_is_inherited(_: Artifact, __: Info) -> bool:
    return True


@resolvers.field("Artifact.tags")
def resolve_tags(row: Artifact, _: Info) -> list[dict[str, str]]:
    return tag_nodes(f"Tag:{row.id}", row.tag_names)


@resolvers.field("Artifact.aliases")
@resolvers.field("ArtifactCollectionMembership.aliases")
def resolve_aliases(row: Artifact, info: Info) -> list[Alias]:
    with transaction(info) as db:
        return find_all(db, Alias, artifact_id=row.id)


@resolvers.field("Artifact.state")
def resolve_state(row: Artifact, _: Info) -> str:
    return "COMMITTED" if row.committed else "PENDING"


@resolvers.field("Artifact.commitHash")
def resolve_commit_hash(row: Artifact, _: Info) -> str | None:
    return commit_hash(row) if row.committed else None


@resolvers.field("Artifact.createdBy")
def resolve_created_by(row: Artifact, info: Info) -> Run | User | None:
    with transaction(info) as db:
        if row.run_id is not None:
            return get(db, Run, row.run_id)
        return find(db, User, id=row.user_id)


@resolvers.field("Artifact.usedBy")
def resolve_used_by(row: Artifact, info: Info) -> dict[str, Any]:
    with transaction(info) as db:
        return connection(list_runs_of(db, row, "input"), default_page=None)


@resolvers.field("Artifact.currentManifest")
def resolve_manifest(row: Artifact, info: Info) -> dict[str, Any] | None:
    with transaction(info) as db:
        file = find(db, File, artifact_id=row.id, manifest=1)
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
    with transaction(info) as db:
        found = list_artifact_files(db, row)
    if names:
        found = [file for file in found if file.name in names]
    return _file_page(info, row, found, after, first)


@resolvers.field("Artifact.filesByManifestEntries")
def resolve_files_by_entries(
    row: Artifact, info: Info, entries: list[dict[str, Any]] | None = None, **_: Any
) -> dict[str, Any]:
    wanted = {entry["name"] for entry in entries or []}
    with transaction(info) as db:
        found = [file for file in list_artifact_files(db, row) if file.name in wanted]
    return _file_page(info, row, found, None, len(found))


def _file_page(
    info: Info, row: Artifact, found: list[File], after: str | None, first: int | None
) -> dict[str, Any]:
    """Return one page of files, whose addresses are signed."""
    page = ordered_connection(found, by_name(), after, first)
    for edge in page["edges"]:
        edge["node"] = artifact_file_node(info.context, edge["node"], row)
    return page


@resolvers.field("Artifact.artifactMemberships")
def resolve_memberships(row: Artifact, _: Info, **__: Any) -> dict[str, Any]:
    """Return the one collection that it is in: there are no links here."""
    return connection([row])


@resolvers.field("ArtifactCollectionMembership.artifact")
def resolve_member(row: Artifact, _: Info) -> Artifact:
    return row


@resolvers.field("ArtifactAlias.artifactCollection")
def resolve_alias_collection(row: Alias, info: Info) -> Collection:
    with transaction(info) as db:
        return get(db, Collection, row.collection_id)


@resolvers.field("Run.outputArtifacts")
def resolve_outputs(
    row: Run, info: Info, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    with transaction(info) as db:
        return ordered_connection(list_artifacts_of(db, row, "output"), by_row(), after, first)


@resolvers.field("Run.inputArtifacts")
def resolve_inputs(
    row: Run, info: Info, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    with transaction(info) as db:
        return ordered_connection(list_artifacts_of(db, row, "input"), by_row(), after, first)
