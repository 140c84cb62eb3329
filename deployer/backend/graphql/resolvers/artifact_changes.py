"""Using, describing, tagging, renaming and deleting artifacts and their collections."""

from __future__ import annotations

from typing import Any, NoReturn

from deployer.backend.db.accounts import Caller, check_label, get_project
from deployer.backend.db.artifacts import (
    Alias,
    Artifact,
    Collection,
    change_tags,
    check_deletable,
    record_role,
    remove_aliases,
    remove_artifact,
    rename_collection,
    set_aliases,
)
from deployer.backend.db.rows import Connection, change, delete, find, find_all, get
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.listing import Info
from deployer.backend.graphql.resolvers.artifact_upload import named_run, writable_artifact
from deployer.backend.graphql.resolvers.artifacts import (
    Deleted,
    collection_tags,
    own_artifact,
    own_collection,
)
from deployer.backend.request import Refusal, not_found

resolvers = Resolvers()


@resolvers.field("Mutation.useArtifact")
def resolve_use(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    db = request.db
    owner = get_project(db, request.caller, input["entity_name"], input["project_name"])
    user = named_run(db, request.caller, owner, input["run_name"])
    row = own_artifact(db, request.caller, input["artifact_id"])
    record_role(db, user, row, "input")
    return {"artifact": row}


@resolvers.field("Mutation.updateArtifact")
def resolve_update(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Change what is given; null means "leave as it is"."""
    changes = {
        name: input[name] for name in ("description", "metadata") if input.get(name) is not None
    }
    add, remove = (
        [tag["tag_name"] for tag in input.get(name) or []]
        for name in ("tags_to_add", "tags_to_delete")
    )
    db = info.context.db
    row = writable_artifact(info, db, input["artifact_id"])
    changes["tags"] = change_tags(row.tag_names, add, remove)
    row = change(db, row, **changes, updated_at=info.context.backend.now())
    if input.get("aliases") is not None:
        _replace_aliases(db, row, [part["alias"] for part in input["aliases"]])
    return {"artifact": row}


def _replace_aliases(db: Connection, row: Artifact, wanted: list[str]) -> None:
    present = [found.alias for found in find_all(db, Alias, artifact_id=row.id)]
    remove_aliases(db, row, [alias for alias in present if alias not in wanted])
    set_aliases(db, row, wanted)


@resolvers.field("Mutation.addAliases")
def resolve_add_aliases(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    db = info.context.db
    row = writable_artifact(info, db, input["artifact_id"])
    set_aliases(db, row, _aliases(db, row, input))
    return {"success": True}


@resolvers.field("Mutation.deleteAliases")
def resolve_delete_aliases(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    db = info.context.db
    row = writable_artifact(info, db, input["artifact_id"])
    remove_aliases(db, row, _aliases(db, row, input))
    return {"success": True}


def _aliases(db: Connection, row: Artifact, input: dict[str, Any]) -> list[str]:
    """Return the named aliases; refuse with 400 those of another collection: they are links."""
    own = get(db, Collection, row.collection_id).name
    if any(part["artifact_collection_name"] != own for part in input["aliases"]):
        raise Refusal(400, f"artifact is in the collection {own} alone")
    return [part["alias"] for part in input["aliases"]]


@resolvers.field("Mutation.deleteArtifact")
def resolve_delete(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Delete a version; one with aliases only if the request deletes these, too."""
    db = info.context.db
    row = writable_artifact(info, db, input["artifact_id"])
    check_deletable(db, info.context.caller, row)
    aliases = [found.alias for found in find_all(db, Alias, artifact_id=row.id)]
    if aliases and not input.get("delete_aliases"):
        raise Refusal(
            400, f"artifact has aliases {', '.join(aliases)}: set delete_aliases to delete it"
        )
    remove_artifact(db, row)
    return {"artifact": row}


@resolvers.field("Mutation.linkArtifact")
def resolve_link(_: Any, __: Info, **___: Any) -> NoReturn:
    """Refuse: without a registry there is nothing to link to."""
    raise Refusal(400, "linking artifacts is not supported: this server has no registry")


def check_not_agent(caller: Caller) -> None:
    """Refuse with 403 an agent's key, which is good for its own runs alone."""
    if caller.sweep_id is not None:
        raise Refusal(403, "an agent's key cannot change artifacts of others")


@resolvers.field("Mutation.updateArtifactSequence")
def resolve_update_collection(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    check_not_agent(request.caller)
    now = request.backend.now()
    db = request.db
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
    wanted = check_label("artifact type", input["destination_artifact_type_name"])
    db = request.db
    row = own_collection(db, request.caller, input["artifact_sequence_id"])
    row = change(db, row, type=wanted, updated_at=request.backend.now())
    return {"artifact_collection": row}


@resolvers.field("Mutation.deleteArtifactSequence")
def resolve_delete_collection(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
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
    db = request.db
    owner = get_project(db, request.caller, input["entity_name"], input["project_name"])
    row = find(db, Collection, project_id=owner.id, name=input["artifact_collection_name"])
    if row is None:
        raise not_found(f"artifact collection {input['artifact_collection_name']}")
    tags = change_tags(row.tag_names, add or [], remove or [])
    return change(db, row, tags=tags, updated_at=request.backend.now())
