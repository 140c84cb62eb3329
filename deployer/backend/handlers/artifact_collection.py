"""Collections of artifacts and their types: listing, renaming, tagging, deleting."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ariadne import InterfaceType, MutationType, ObjectType, QueryType

from deployer.backend.accounts import Caller
from deployer.backend.artifact_aliases import list_collection_aliases
from deployer.backend.artifact_collections import (
    ArtifactType,
    Collection,
    change_collection,
    change_tags,
    check_label,
    collection_by_id,
    delete_collection,
    find_collection,
    find_type,
    list_collections,
    list_types,
    rename_collection,
)
from deployer.backend.artifacts import Artifact, find_version, latest_version, list_versions
from deployer.backend.handlers.artifact import find_named
from deployer.backend.handlers.project import project
from deployer.backend.handlers.wire import (
    Info,
    connection,
    decode_id,
    encode_id,
    iso_time,
    transaction,
)
from deployer.backend.ordering import Order, by_row, ordered_connection
from deployer.backend.projects import Project, get_project, project_by_id
from deployer.backend.refusal import Refusal, not_found
from deployer.backend.store import Connection

query = QueryType()
mutation = MutationType()
kind = ObjectType("ArtifactType")
collection = InterfaceType("ArtifactCollection", lambda *_: "ArtifactSequence")
sequence = ObjectType("ArtifactSequence")

NO_FILTERS = (None, "", "{}", "null")
COMMITTED = {"state": "COMMITTED"}  # the filter that the public API sends with every listing


@dataclass(frozen=True)
class Deleted:
    """What is told of a collection that is gone."""

    collection: Collection


def own_collection(db: Connection, caller: Caller, text: str) -> Collection:
    """Return a collection by its opaque id; refuse with 404 another user's."""
    row = collection_by_id(db, decode_id("ArtifactCollection", text))
    if project_by_id(db, row.project_id).entity != caller.user.name:
        raise not_found("artifact collection")
    return row


def check_not_agent(caller: Caller) -> None:
    """Refuse with 403 an agent's key, which is good for its own runs."""
    if caller.sweep_id is not None:
        raise Refusal(403, "an agent's key cannot change artifacts of others")


@query.field("artifactCollection")
def resolve_collection(_: Any, info: Info, id: str) -> Collection:
    with transaction(info) as db:
        return own_collection(db, info.context.caller, id)


@project.field("artifactCollection")
def resolve_project_collection(row: Project, info: Info, name: str) -> Collection | None:
    with transaction(info) as db:
        return find_collection(db, row, name)


@project.field("artifactCollections")
def resolve_project_collections(
    row: Project, info: Info, after: str | None = None, first: int | None = None, **asked: Any
) -> dict[str, Any]:
    _check_unfiltered(**asked)
    with transaction(info) as db:
        found = list_collections(db, row)
    return ordered_connection(found, by_row(descending=True), after, first)


def _check_unfiltered(filters: str | None = None, order: str | None = None) -> None:
    """Refuse with 400 what the server's features do not announce, so that clients do not send."""
    if filters not in NO_FILTERS or order:
        raise Refusal(400, "filtering and ordering of artifact collections is not supported")


@project.field("artifactType")
def resolve_artifact_type(row: Project, info: Info, name: str) -> ArtifactType | None:
    with transaction(info) as db:
        return find_type(db, row, name)


@project.field("artifactTypes")
def resolve_artifact_types(
    row: Project, info: Info, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    with transaction(info) as db:
        return connection(list_types(db, row), after, first)


@kind.field("id")
def resolve_type_id(row: ArtifactType, _: Info) -> str:
    return encode_id("ArtifactType", row.id)


@kind.field("createdAt")
def resolve_type_created_at(row: ArtifactType, _: Info) -> str | None:
    return iso_time(row.created_at)


@kind.field("artifact")
def resolve_type_artifact(row: ArtifactType, info: Info, name: str) -> Artifact | None:
    with transaction(info) as db:
        found = find_named(db, project_by_id(db, row.project_id), name)
        if found and collection_by_id(db, found.collection_id).type != row.name:
            return None
    return found


@kind.field("artifactCollection")
def resolve_type_collection(row: ArtifactType, info: Info, name: str) -> Collection | None:
    with transaction(info) as db:
        found = find_collection(db, project_by_id(db, row.project_id), name)
    return found if found and found.type == row.name else None


@kind.field("artifactCollections")
def resolve_type_collections(
    row: ArtifactType, info: Info, after: str | None = None, first: int | None = None, **asked: Any
) -> dict[str, Any]:
    _check_unfiltered(**asked)
    with transaction(info) as db:
        found = list_collections(db, project_by_id(db, row.project_id), row.name)
    return ordered_connection(found, by_row(descending=True), after, first)


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
        return project_by_id(db, row.project_id)


@collection.field("defaultArtifactType")
def resolve_default_type(row: Collection, info: Info) -> ArtifactType | None:
    with transaction(info) as db:
        return find_type(db, project_by_id(db, row.project_id), row.type)


@collection.field("tags")
def resolve_tags(row: Collection, _: Info) -> dict[str, Any]:
    return {"edges": [{"node": tag} for tag in _tag_nodes(row)]}


def _tag_nodes(row: Collection) -> list[dict[str, str]]:
    place = f"CollectionTag:{row.id}"
    return [{"id": encode_id(place, n), "name": tag} for n, tag in enumerate(row.tag_names)]


@collection.field("aliases")
def resolve_aliases(
    row: Collection, info: Info, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    with transaction(info) as db:
        return connection(list_collection_aliases(db, row), after, first)


@collection.field("artifacts")
def resolve_artifacts(
    row: Collection,
    info: Info,
    after: str | None = None,
    first: int | None = None,
    order: str | None = None,
    filters: str | None = None,
) -> dict[str, Any]:
    """List the versions, newest first; `+versionIndex` or `+createdAt` turns the order round."""
    if filters not in NO_FILTERS and json.loads(filters or "{}") != COMMITTED:
        raise Refusal(400, f"the filter {filters} is not supported for artifacts")
    with transaction(info) as db:
        found = list_versions(db, row)
    newest_first = not order or order.startswith("-")
    by_version: Order[Artifact] = Order(lambda version: version.version, newest_first)
    page = ordered_connection(found, by_version, after, first)
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
        return latest_version(db, row)


@mutation.field("updateArtifactSequence")
def resolve_update(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    check_not_agent(request.caller)
    now = request.backend.now()
    with transaction(info) as db:
        row = own_collection(db, request.caller, input["artifact_sequence_id"])
        if input.get("name"):
            owner = project_by_id(db, row.project_id)
            row = rename_collection(db, owner, row, input["name"], now)
        if input.get("description") is not None:
            row = change_collection(db, row, now, description=input["description"])
    return {"artifact_collection": row}


@mutation.field("moveArtifactSequence")
def resolve_move(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Give a collection another type."""
    request = info.context
    check_not_agent(request.caller)
    wanted = check_label("type", input["destination_artifact_type_name"])
    with transaction(info) as db:
        row = own_collection(db, request.caller, input["artifact_sequence_id"])
        row = change_collection(db, row, request.backend.now(), type=wanted)
    return {"artifact_collection": row}


@mutation.field("deleteArtifactSequence")
def resolve_delete(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Delete a collection with all its versions."""
    check_not_agent(info.context.caller)
    with transaction(info) as db:
        row = own_collection(db, info.context.caller, input["artifact_sequence_id"])
        delete_collection(db, row)
    return {"artifact_collection": Deleted(row)}


@mutation.field("createArtifactCollectionTagAssignments")
def resolve_add_tags(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    return {"tags": _tag_nodes(_retag(info, input, add=_tag_names(input)))}


@mutation.field("deleteArtifactCollectionTagAssignments")
def resolve_delete_tags(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    _retag(info, input, remove=_tag_names(input))
    return {"success": True}


def _tag_names(input: dict[str, Any]) -> list[str]:
    return [tag["tag_name"] for tag in input["tags"]]


def _retag(
    info: Info, input: dict[str, Any], add: list[str] | None = None, remove: list[str] | None = None
) -> Collection:
    request = info.context
    check_not_agent(request.caller)
    with transaction(info) as db:
        owner = get_project(db, request.caller, input["entity_name"], input["project_name"])
        row = find_collection(db, owner, input["artifact_collection_name"])
        if row is None:
            raise not_found(f"artifact collection {input['artifact_collection_name']}")
        tags = change_tags(row.tag_names, add or [], remove or [])
        return change_collection(db, row, request.backend.now(), tags=tags)
