"""Files of runs: promising an upload, listing, deleting."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from deployer.backend.db.files import (
    File,
    list_run_files,
    promise_file,
)
from deployer.backend.db.projects import Project, get_project, owns_project
from deployer.backend.db.rows import delete, get
from deployer.backend.db.runs import Run, check_writer, get_run
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.listing import page_of
from deployer.backend.graphql.patterns import Pattern, PatternError
from deployer.backend.graphql.resolvers.file_nodes import run_file_node, upload_url
from deployer.backend.graphql.resolvers.wire import Info, decode_id, encode_id
from deployer.backend.refusal import Refusal, not_found

resolvers = Resolvers(
    {
        "Run.fileCount": lambda db, run: len(list_run_files(db, run.id)),
    }
)


@resolvers.field("Mutation.createRunFiles")
def resolve_create_run_files(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    db = info.context.db
    project = get_project(db, request.caller, input["entity_name"], input["project_name"])
    row = get_run(db, project, input["run_name"])
    check_writer(db, request.caller, row)
    promised = [promise_file(db, row.id, name) for name in input["files"]]
    uploads = [{"name": item.name, "upload_url": upload_url(request, item)} for item in promised]
    return {"run_id": encode_id("Run", row.id), "upload_headers": [], "files": uploads}


@resolvers.field("Mutation.markRunFilesUploaded")
def resolve_mark_uploaded(_: Any, __: Info, **___: Any) -> dict[str, Any]:
    """Acknowledge; the upload itself has marked the file."""
    return {"success": True}


@resolvers.field("Mutation.deleteFiles")
def resolve_delete_files(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    request = info.context
    db = info.context.db
    for text in input["files"]:
        row = get(db, File, decode_id("File", text))
        owner = get(db, Run, row.run_id)
        if not owns_project(db, request.caller, owner.project_id):
            raise not_found("file")
        check_writer(db, request.caller, owner)
        delete(db, row)
    return {"success": True}


@resolvers.field("Run.files")
def resolve_files(
    row: Run,
    info: Info,
    names: list[str] | None = None,
    after: str | None = None,
    first: int | None = None,
    pattern: str | None = None,
) -> dict[str, Any]:
    """List by name; `pattern` is SQL's LIKE, in which `_` is any letter and `%` any text."""
    db = info.context.db
    project = get(db, Project, row.project_id)
    found = list_run_files(db, row.id)
    if names:
        wanted = {posixpath.normpath(name) for name in names if name}  # ./x.txt is x.txt
        found = [item for item in found if item.name in wanted]
    if pattern:
        found = _named_like(found, pattern)
    page = page_of(found, "+name", after, first)
    for edge in page["edges"]:
        edge["node"] = run_file_node(info.context, edge["node"], row, project)
    return page


LIKE = {"%": ".*", "_": "."}


def _named_like(files: list[File], pattern: str) -> list[File]:
    expression = "".join(LIKE.get(letter) or re.escape(letter) for letter in pattern)
    try:
        like = Pattern(f"^{expression}$", "s")
        return [item for item in files if like.search(item.name)]
    except PatternError as error:
        raise Refusal(400, f"the pattern {pattern!r} is wrong: {error}") from error
