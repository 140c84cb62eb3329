"""Files of runs: promising an upload, listing, deleting."""

from __future__ import annotations

import fnmatch
from typing import Any
from urllib.parse import quote

from ariadne import MutationType, ObjectType

from deployer.backend.files import File, delete_file, list_files, promise_file
from deployer.backend.handlers.run import run
from deployer.backend.handlers.wire import (
    Info,
    connection,
    decode_id,
    encode_id,
    iso_time,
    transaction,
)
from deployer.backend.projects import get_project, project_by_id
from deployer.backend.refusal import not_found
from deployer.backend.runs import Run, check_writer, find_run, run_by_id
from deployer.backend.store import select_one

mutation = MutationType()
file = ObjectType("File")
file.set_alias("md5", "md5")


@mutation.field("createRunFiles")
def resolve_create_run_files(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    with transaction(info) as db:
        project = get_project(db, request.caller, input["entity_name"], input["project_name"])
        row = find_run(db, project, input["run_name"])
        if row is None:
            raise not_found(f"run {input['run_name']}")
        check_writer(db, request.caller, row)
        promised = [promise_file(db, row.id, name) for name in input["files"]]
    uploads = [
        {"name": item.name, "upload_url": f"{request.base_url}/upload/{item.token}"}
        for item in promised
    ]
    return {"run_id": encode_id("Run", row.id), "upload_headers": [], "files": uploads}


@mutation.field("markRunFilesUploaded")
def resolve_mark_uploaded(_: Any, __: Info, **___: Any) -> dict[str, Any]:
    """Acknowledge; the upload itself has marked the file."""
    return {"success": True}


@mutation.field("deleteFiles")
def resolve_delete_files(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    with transaction(info) as db:
        for text in input["files"]:
            row = select_one(db, File, "files WHERE id = ?", decode_id("File", text))
            if row is None:
                continue
            owner = run_by_id(db, row.run_id)
            if project_by_id(db, owner.project_id).entity != request.caller.user.name:
                raise not_found("file")
            check_writer(db, request.caller, owner)
            delete_file(db, request.backend.files_folder, row.id)
    return {"success": True}


@run.field("fileCount")
def resolve_file_count(row: Run, info: Info) -> int:
    with transaction(info) as db:
        return len(list_files(db, row.id))


@run.field("files")
def resolve_files(
    row: Run,
    info: Info,
    names: list[str] | None = None,
    after: str | None = None,
    first: int | None = None,
    pattern: str | None = None,
) -> dict[str, Any]:
    with transaction(info) as db:
        found = list_files(db, row.id)
    if names:
        found = [item for item in found if item.name in names]
    if pattern:
        glob = pattern.replace("%", "*")
        found = [item for item in found if fnmatch.fnmatchcase(item.name, glob)]
    return connection(found, after, first)


@file.field("id")
def resolve_id(row: File, _: Info) -> str:
    return encode_id("File", row.id)


@file.field("url")
@file.field("directUrl")
def resolve_url(row: File, info: Info, upload: bool | None = None) -> str:
    request = info.context
    if upload:
        return f"{request.base_url}/upload/{row.token}"
    with transaction(info) as db:
        owner = run_by_id(db, row.run_id)
        project = project_by_id(db, owner.project_id)
    path = "/".join(quote(part) for part in (project.entity, project.name, owner.name))
    return f"{request.base_url}/files/{path}/{quote(row.name)}"


@file.field("updatedAt")
def resolve_updated_at(row: File, _: Info) -> str | None:
    return iso_time(row.uploaded_at)
