"""Changing collections of artifacts: name, type, tags; deleting them."""

from __future__ import annotations

from typing import Any

from deployer.backend.db.accounts import Caller
from deployer.backend.db.artifacts import Collection, change_tags, check_label, rename_collection
from deployer.backend.db.projects import get_project
from deployer.backend.db.rows import change, delete, find
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.resolvers.artifact_collection import (
    Deleted,
    collection_tags,
    own_collection,
)
from deployer.backend.graphql.resolvers.wire import Info
from deployer.backend.refusal import Refusal, not_found

resolvers = Resolvers()


def check_not_agent(caller: Caller) -> None:
    """Refuse with 403 an agent's key, which is good for its own runs alone."""
    if caller.sweep_id is not None:
        raise Refusal(403, "an agent's key cannot change artifacts of others")


@resolvers.field("Mutation.updateArtifactSequence")
def resolve_update(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    check_not_agent(request.caller)
    now = request.backend.now()
    db = info.context.db
    row = own_collection(db, request.caller, input["artifact_sequence_id"])
    if input.get("name"):
        row = rename_collection(db, row, input["name"], now)
    if input.get("description") is not None:
        row = change(db, row, description=input["description"], updated_at=now)
    return {"artifact_collection": row}


@resolvers.field("Mutation.moveArtifactSequence")
def resolve_move(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Give a collection another type."""
    request = info.context
    check_not_agent(request.caller)
    wanted = check_label("type", input["destination_artifact_type_name"])
    db = info.context.db
    row = own_collection(db, request.caller, input["artifact_sequence_id"])
    row = change(db, row, type=wanted, updated_at=request.backend.now())
    return {"artifact_collection": row}


@resolvers.field("Mutation.deleteArtifactSequence")
def resolve_delete(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Delete a collection with all its versions."""
    check_not_agent(info.context.caller)
    db = info.context.db
    row = own_collection(db, info.context.caller, input["artifact_sequence_id"])
    delete(db, row)
    return {"artifact_collection": Deleted(**vars(row))}


@resolvers.field("Mutation.createArtifactCollectionTagAssignments")
def resolve_add_tags(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    return {"tags": collection_tags(_retag(info, input, add=_tag_names(input)))}


@resolvers.field("Mutation.deleteArtifactCollectionTagAssignments")
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
    db = info.context.db
    owner = get_project(db, request.caller, input["entity_name"], input["project_name"])
    row = find(db, Collection, project_id=owner.id, name=input["artifact_collection_name"])
    if row is None:
        raise not_found(f"artifact collection {input['artifact_collection_name']}")
    tags = change_tags(row.tag_names, add or [], remove or [])
    return change(db, row, tags=tags, updated_at=request.backend.now())
