"""Files of runs and of artifacts as W&B's common type `File`, with their signed addresses."""

from __future__ import annotations

import posixpath
import re
from typing import Any
from urllib.parse import quote

from deployer.backend.db.accounts import ProjectRow, get_project, owns_project
from deployer.backend.db.artifacts import Artifact
from deployer.backend.db.files import File, is_unnamed, list_run_files, promise_file
from deployer.backend.db.rows import delete, get
from deployer.backend.db.runs import RunRow, check_writer, get_run
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.filters import Pattern, PatternError
from deployer.backend.graphql.listing import Info, decode_id, encode_id, page_of
from deployer.backend.request import Refusal, not_found
from deployer.backend.scheduling.context import Request
from deployer.backend.storage.blob_folder import Action

Node = dict[str, Any]
LIKE = {"%": ".*", "_": "."}
resolvers = Resolvers(
    {
        "Run.fileCount": lambda db, run: len(list_run_files(db, run.id)),
    }
)


def _signed_url(request: Request, action: Action, file: File) -> str:
    """Return an address for this action that the client can reach, valid for a limited time."""
    backend, name = request.backend, file.name if action == "download" else ""
    return request.base_url + backend.signer.path(action, file.id, backend.now(), name)


def upload_url(request: Request, file: File) -> str:
    return _signed_url(request, "upload", file)


def _file_node(request: Request, kind: str, file: File) -> Node:
    """Return the common fields of all files; a reference has its external address."""
    address = file.reference or _signed_url(request, "download", file)
    return {
        "id": encode_id(kind, file.id),
        "name": file.name,
        "display_name": file.name,
        "url": address,
        "direct_url": address,
        "size_bytes": file.size_bytes,
        "mimetype": file.mimetype,
        "md5": None if file.reference else file.digest,
        "digest": file.digest,
    }


def run_file_node(request: Request, file: File, run: RunRow, project: ProjectRow) -> Node:
    """Return a run's file; `url` asks for a key, `directUrl` is signed.

    Only callers who may write to the run get an upload address.
    """
    place = "/".join(quote(part) for part in (project.entity, project.name, run.name))
    keyed = f"{request.base_url}/files/{place}/{quote(file.name)}"

    def url(_: Any, upload: bool | None = None) -> str:
        if not upload:
            return keyed
        check_writer(request.db, request.caller, run)
        return upload_url(request, file)

    node = _file_node(request, "File", file)
    return {**node, "url": url, "updated_at": file.uploaded_at}


def artifact_file_node(request: Request, file: File, row: Artifact) -> Node:
    """Return an artifact's file, with a storage path like W&B's, which no client uses."""
    return {
        **_file_node(request, "ArtifactFile", file),
        "size_bytes": file.size_bytes or 0,
        "updated_at": row.updated_at,
        "storage_path": f"wandb_artifacts/{file.artifact_id}/{file.id}",
    }


def promised_file_node(request: Request, file: File, row: Artifact) -> Node:
    """Return a promised file; without an upload address if its bytes are already stored."""
    return {
        **artifact_file_node(request, file, row),
        "upload_url": None if file.blob_id else upload_url(request, file),
        "upload_headers": [],
        "artifact": row,
    }


def manifest_node(request: Request, row: Artifact, file: File) -> Node:
    return {
        "id": encode_id("ArtifactManifest", row.id),
        "digest": file.digest,
        "file": {
            **_file_node(request, "ArtifactManifestFile", file),
            "upload_url": upload_url(request, file),
            "upload_headers": [],
        },
    }


@resolvers.field("Mutation.createRunFiles")
def resolve_create_run_files(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    db = request.db
    project = get_project(db, request.caller, input["entity_name"], input["project_name"])
    row = get_run(db, project, input["run_name"])
    check_writer(db, request.caller, row)
    names = input["files"]
    good = [name for name in names if not is_unnamed(name)] or names  # the SDK skips the others
    urls = {name: upload_url(request, promise_file(db, row.id, name)) for name in good}
    uploads = [{"name": name, "upload_url": urls.get(name)} for name in names]
    return {"run_id": encode_id("Run", row.id), "upload_headers": [], "files": uploads}


@resolvers.field("Mutation.markRunFilesUploaded")
def resolve_mark_uploaded(_: Any, __: Info, **___: Any) -> dict[str, Any]:
    """Acknowledge only, since the upload itself has marked the file."""
    return {"success": True}


@resolvers.field("Mutation.deleteFiles")
def resolve_delete_files(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    db = request.db
    for text in input["files"]:
        row = get(db, File, decode_id("File", text))
        if row.run_id is None:
            raise not_found("file")
        owner = get(db, RunRow, row.run_id)
        if not owns_project(db, request.caller, owner.project_id):
            raise not_found("file")
        check_writer(db, request.caller, owner)
        delete(db, row)
    return {"success": True}


@resolvers.field("Run.files")
def resolve_files(
    row: RunRow,
    info: Info,
    names: list[str] | None = None,
    after: str | None = None,
    first: int | None = None,
    pattern: str | None = None,
) -> dict[str, Any]:
    """List files by name; `pattern` is a LIKE pattern of SQL: `_` is any letter, `%` any text."""
    db = info.context.db
    project = get(db, ProjectRow, row.project_id)
    found = list_run_files(db, row.id)
    if names:
        wanted = {posixpath.normpath(name) for name in names if name}  # ./x.txt is x.txt
        found = [item for item in found if item.name in wanted]
        missing = wanted - {item.name for item in found}  # W&B lists missing files with digest "0"
        found += [File(0, row.id, None, 0, name, "0", 0, None, None, None) for name in missing]
    if pattern:
        found = _named_like(found, pattern)
    page = page_of(found, "+name", after, first)
    for edge in page["edges"]:
        edge["node"] = run_file_node(info.context, edge["node"], row, project)
    return page


def _named_like(files: list[File], pattern: str) -> list[File]:
    expression = "".join(LIKE.get(letter) or re.escape(letter) for letter in pattern)
    try:
        like = Pattern(f"^{expression}$", "s")
        return [item for item in files if like.search(item.name)]
    except PatternError as error:
        raise Refusal(400, f"the pattern {pattern!r} is wrong: {error}") from error
