"""Logging an artifact, as the SDK does it: begin, promise files, send them, commit."""

from __future__ import annotations

import json
from typing import Any

from deployer.backend.db.accounts import Caller, Project, get_project
from deployer.backend.db.artifacts import (
    PATCH,
    Artifact,
    Collection,
    check_alias,
    create_artifact,
    ensure_collection,
    find_begun,
    find_same,
    list_runs_of,
    record_role,
    set_aliases,
)
from deployer.backend.db.files import list_patches, promise_artifact_file, promise_manifest
from deployer.backend.db.rows import Connection, change, find, get, update
from deployer.backend.db.runs import Run, check_writer, get_run, may_write
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.listing import (
    Info,
    decode_id,
    encode_id,
)
from deployer.backend.graphql.resolvers.artifacts import own_artifact
from deployer.backend.graphql.resolvers.files import manifest_node, promised_file_node
from deployer.backend.request import Refusal
from deployer.backend.storage.artifact_commit import commit_artifact

resolvers = Resolvers()


def writable_artifact(info: Info, db: Connection, text: str) -> Artifact:
    """Return a version by its opaque id; refuse with 403 an agent's key if no run of it made it."""
    caller = info.context.caller
    row = own_artifact(db, caller, text)
    if caller.sweep_id is None or any(
        may_write(db, caller, run) for run in list_runs_of(db, row, "output")
    ):
        return row
    raise Refusal(403, "an agent's key cannot change artifacts of others")


def named_run(db: Connection, caller: Caller, owner: Project, name: str) -> Run:
    """Return a run to which the caller may write; refuse with 404 if there is none."""
    row = get_run(db, owner, name)
    check_writer(db, caller, row)
    return row


@resolvers.field("Mutation.createArtifact")
def resolve_create(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Begin a version; for content that is there already, return the version that has it."""
    request = info.context
    if (region := input.get("storage_region")) not in (None, "default"):  # what the SDK calls ours
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


def _writing_run(db: Connection, caller: Caller, owner: Project, name: str | None) -> Run | None:
    if name:
        return named_run(db, caller, owner, name)
    if caller.sweep_id is not None:
        raise Refusal(403, "an agent's key cannot log artifacts without a run")
    return None


def _collection_name(input: dict[str, Any]) -> str:
    names = input.get("artifact_collection_names") or [input.get("artifact_collection_name")]
    if len(names) != 1 or not names[0]:
        raise Refusal(400, "an artifact is logged to one collection")
    return str(names[0])


def _aliases(input: dict[str, Any]) -> list[str]:
    return [check_alias(part["alias"]) for part in input.get("aliases") or []]


def _same(
    db: Connection, collection: Collection, input: dict[str, Any], now: float
) -> Artifact | None:
    """Return the version of this content, or this request's own from before its lost reply.

    A pending one is shared: whoever completes it first commits it for all.
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
    info: Info, db: Connection, collection: Collection, row: Run | None, input: dict[str, Any]
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
    """Begin what a run adds to a version; it may name the digest of its manifest later."""
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
    """Promise files; one whose bytes are here already gets no address for its upload."""
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
