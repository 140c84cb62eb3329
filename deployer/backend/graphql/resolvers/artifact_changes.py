"""Mutations of artifacts: log, use, describe, tag, rename and delete them."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from deployer.backend.db.accounts import Caller, ProjectRow, check_label, get_project
from deployer.backend.db.artifacts import (
    PATCH,
    Alias,
    Artifact,
    Collection,
    change_tags,
    check_alias,
    check_deletable,
    create_artifact,
    ensure_collection,
    find_begun,
    find_same,
    list_runs_of,
    record_role,
    remove_aliases,
    remove_artifact,
    rename_collection,
    set_aliases,
)
from deployer.backend.db.files import list_patches, promise_artifact_file, promise_manifest
from deployer.backend.db.rows import Connection, change, delete, find, find_all, get, update
from deployer.backend.db.runs import RunRow, check_writer, get_run, may_write
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.listing import Info, decode_id, encode_id
from deployer.backend.graphql.resolvers.artifacts import (
    Deleted,
    collection_tags,
    own_artifact,
    own_collection,
)
from deployer.backend.graphql.resolvers.files import manifest_node, promised_file_node
from deployer.backend.request import Refusal, not_found
from deployer.backend.storage.artifact_commit import commit_artifact

# The SDK logs an artifact in four steps: create it, promise files, upload them, commit.

resolvers = Resolvers()


def writable_artifact(info: Info, db: Connection, text: str) -> Artifact:
    """Return a version by its opaque id; 403 for an agent's key unless its run made it."""
    caller = info.context.caller
    row = own_artifact(db, caller, text)
    if caller.sweep_id is None or any(
        may_write(db, caller, run) for run in list_runs_of(db, row, "output")
    ):
        return row
    raise Refusal(403, "an agent's key cannot change artifacts of others")


def named_run(db: Connection, caller: Caller, owner: ProjectRow, name: str) -> RunRow:
    """Return a run that the caller may write; refuse with 404 if not found."""
    row = get_run(db, owner, name)
    check_writer(db, caller, row)
    return row


@resolvers.field("Mutation.createArtifact")
def resolve_create(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Create a version; for existing content, return the version that has it."""
    request = info.context
    if (region := input.get("storage_region")) not in (None, "default"):  # the SDK's name for ours
        raise Refusal(400, f"this server has no storage region {region!r}: leave it out")
    shared = input.get("distributed_id") and f"distributed {input['distributed_id']}"
    if shared:
        input["client_id"] = shared
    db = request.db
    owner = get_project(db, request.caller, input["entity_name"], input["project_name"])
    row = _writing_run(db, request.caller, owner, input.get("run_name"))
    collection = ensure_collection(
        db,
        owner,
        _collection_name(input),
        input["artifact_type_name"],
        input.get("sequence_client_id"),
        request.backend.now(),
    )
    if shared:
        same = find(db, Artifact, collection_id=collection.id, client_id=shared, version=None)
    else:
        same = _same(db, collection, input, request.backend.now())
    made = same or _begin(info, db, collection, row, input)
    if row is not None:
        record_role(db, row, made, "output")
    return {"artifact": made}


def _writing_run(
    db: Connection, caller: Caller, owner: ProjectRow, name: str | None
) -> RunRow | None:
    if name:
        return named_run(db, caller, owner, name)
    if caller.sweep_id is not None:
        raise Refusal(403, "an agent's key cannot log artifacts without a run")
    return None


def _collection_name(input: dict[str, Any]) -> str:
    names = input.get("artifact_collection_names") or [input.get("artifact_collection_name")]
    if len(names) != 1 or not names[0]:
        raise Refusal(400, "an artifact can be logged to only one collection")
    return str(names[0])


def _aliases(input: dict[str, Any]) -> list[str]:
    return [check_alias(part["alias"]) for part in input.get("aliases") or []]


def _same(
    db: Connection, collection: Collection, input: dict[str, Any], now: float
) -> Artifact | None:
    """Return the version with this content, or the one this request made before its lost reply.

    Clients share a pending version; the first one to complete it commits it for all.
    """
    begun = find_begun(db, collection, input.get("client_id"))
    if begun:
        return begun
    if not input.get("enable_digest_deduplication"):
        return None
    same = find_same(db, collection, input["digest"])
    if same:
        set_aliases(db, same, _aliases(input))
        return same
    pending = find(db, Artifact, collection_id=collection.id, digest=input["digest"], version=None)
    if pending is None:
        return None
    wanted = dict.fromkeys([*json.loads(pending.wanted_aliases), *_aliases(input)])
    return change(db, pending, wanted_aliases=json.dumps(list(wanted)), updated_at=now)


def _begin(
    info: Info, db: Connection, collection: Collection, row: RunRow | None, input: dict[str, Any]
) -> Artifact:
    tags = [tag["tag_name"] for tag in input.get("tags") or []]
    return create_artifact(
        db,
        collection,
        info.context.caller.user.id,
        info.context.backend.now(),
        run_id=row.id if row else None,
        digest=input["digest"],
        description=input.get("description"),
        metadata=input.get("metadata"),
        tags=json.dumps(tags),
        wanted_aliases=json.dumps(_aliases(input)),
        client_id=input.get("client_id"),
        history_step=input.get("history_step"),
    )


@resolvers.field("Mutation.createArtifactManifest")
def resolve_create_manifest(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    kind = input.get("type") or "FULL"
    db = info.context.db
    row = writable_artifact(info, db, input["artifact_id"])
    if kind == PATCH:
        row = _expect_patch(info, db, row, input.get("digest"))
    else:
        row = _expect_manifest(info, db, row, input, manifest_type=kind)
    file = promise_manifest(db, row)
    return {"artifact_manifest": manifest_node(info.context, row, file)}


def _expect_patch(info: Info, db: Connection, row: Artifact, digest: str | None) -> Artifact:
    """Create a run's patch to a version; the manifest's digest may be set later."""
    now = info.context.backend.now()
    row = change(db, row, updated_at=now)
    known = [patch for patch, its_digest in list_patches(db, row) if its_digest == digest]
    if row.committed or known:
        return known[0] if known else row
    patch = create_artifact(
        db,
        get(db, Collection, row.collection_id),
        info.context.caller.user.id,
        now,
        run_id=row.run_id,
        digest="",
        manifest_type=PATCH,
        base_id=row.id,
    )
    promise_manifest(db, patch, digest)
    return patch


@resolvers.field("Mutation.updateArtifactManifest")
def resolve_update_manifest(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    number = decode_id("ArtifactManifest", input["artifact_manifest_id"])
    db = info.context.db
    row = own_artifact(db, info.context.caller, encode_id("Artifact", number))
    whole = row.base_id if row.manifest_type == PATCH else row.id
    writable_artifact(info, db, encode_id("Artifact", int(whole or 0)))
    row = _expect_manifest(info, db, row, input)
    file = promise_manifest(db, row)
    return {"artifact_manifest": manifest_node(info.context, row, file)}


def _expect_manifest(
    info: Info, db: Connection, row: Artifact, input: dict[str, Any], **changes: object
) -> Artifact:
    if row.committed:
        return row
    promise_manifest(db, row, input.get("digest"))
    if input.get("base_artifact_id"):
        base = own_artifact(db, info.context.caller, input["base_artifact_id"])
        changes["base_id"] = base.id
    return change(db, row, updated_at=info.context.backend.now(), **changes)


@resolvers.field("Mutation.createArtifactFiles")
def resolve_create_files(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Promise files; a file whose bytes are already stored gets no upload address."""
    request = info.context
    rows: dict[str, Artifact] = {}
    nodes = []
    db = request.db
    for spec in input["artifact_files"]:
        text = spec["artifact_id"]
        row = rows.get(text) or rows.setdefault(text, writable_artifact(info, db, text))
        file = promise_artifact_file(db, row, spec["name"], spec["md5"])
        nodes.append(promised_file_node(request, file, row))
    for row in rows.values():
        if not row.committed:
            update(db, row, updated_at=request.backend.now())
    return {"files": nodes}


@resolvers.field("Mutation.commitArtifact")
def resolve_commit(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    backend = info.context.backend
    db = info.context.db
    row = writable_artifact(info, db, input["artifact_id"])
    return {"artifact": commit_artifact(db, backend.blobs, row, backend.now())}


# Mutations of existing artifacts and collections.


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
    """Change the given fields; null means "keep the stored value"."""
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
        wanted = [part["alias"] for part in input["aliases"]]
        present = [found.alias for found in find_all(db, Alias, artifact_id=row.id)]
        remove_aliases(db, row, [alias for alias in present if alias not in wanted])
        set_aliases(db, row, wanted)
    return {"artifact": row}


@resolvers.field("Mutation.addAliases")
def resolve_add_aliases(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    db = info.context.db
    row = writable_artifact(info, db, input["artifact_id"])
    set_aliases(db, row, _own_aliases(db, row, input))
    return {"success": True}


@resolvers.field("Mutation.deleteAliases")
def resolve_delete_aliases(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    db = info.context.db
    row = writable_artifact(info, db, input["artifact_id"])
    remove_aliases(db, row, _own_aliases(db, row, input))
    return {"success": True}


def _own_aliases(db: Connection, row: Artifact, input: dict[str, Any]) -> list[str]:
    """Return the aliases; refuse those of another collection (links) with 400."""
    own = get(db, Collection, row.collection_id).name
    if any(part["artifact_collection_name"] != own for part in input["aliases"]):
        raise Refusal(400, f"artifact is only in the collection {own}")
    return [part["alias"] for part in input["aliases"]]


@resolvers.field("Mutation.deleteArtifact")
def resolve_delete(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Delete a version; refuse one with aliases unless the request also deletes them."""
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
    """Refuse, since the server has no registry to link to."""
    raise Refusal(400, "linking artifacts is not supported: this server has no registry")


def check_not_agent(caller: Caller) -> None:
    """Refuse an agent's key with 403; it is valid only for its own runs."""
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
    request = info.context
    check_not_agent(request.caller)
    wanted = check_label("artifact type", input["destination_artifact_type_name"])
    db = request.db
    row = own_collection(db, request.caller, input["artifact_sequence_id"])
    row = change(db, row, type=wanted, updated_at=request.backend.now())
    return {"artifact_collection": row}


@resolvers.field("Mutation.deleteArtifactSequence")
def resolve_delete_collection(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
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
