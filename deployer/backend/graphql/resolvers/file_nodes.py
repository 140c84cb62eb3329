"""Files of runs and of artifacts as W&B's one type `File`, with their signed addresses."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from deployer.backend.db.artifacts import Artifact
from deployer.backend.db.files import File
from deployer.backend.db.projects import Project
from deployer.backend.db.runs import Run, check_writer
from deployer.backend.graphql.resolvers.wire import encode_id
from deployer.backend.scheduling.context import Request
from deployer.backend.storage.signed_urls import (
    Action,
)

Node = dict[str, Any]


def _signed_url(request: Request, action: Action, file: File) -> str:
    """Return an address at which the client reaches us, good for this action and a limited time."""
    backend, name = request.backend, file.name if action == "download" else ""
    return request.base_url + backend.signer.path(action, file.id, backend.now(), name)


def upload_url(request: Request, file: File) -> str:
    """Return the address for the upload of a file."""
    return _signed_url(request, "upload", file)


def _file_node(request: Request, kind: str, file: File) -> Node:
    """Return what all files have; a reference has the address that it refers to."""
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


def run_file_node(request: Request, file: File, run: Run, project: Project) -> Node:
    """Return a run's file; `url` asks for a key, `directUrl` is signed.

    An address to write to is for those alone who may write to the run.
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
    """Return an artifact's file, with W&B's name for where it is kept, which nobody uses."""
    return {
        **_file_node(request, "ArtifactFile", file),
        "size_bytes": file.size_bytes or 0,
        "updated_at": row.updated_at,
        "storage_path": f"wandb_artifacts/{file.artifact_id}/{file.id}",
    }


def promised_file_node(request: Request, file: File, row: Artifact) -> Node:
    """Return a promised file; it has no address if its bytes are here already."""
    return {
        **artifact_file_node(request, file, row),
        "upload_url": None if file.blob_id else upload_url(request, file),
        "upload_headers": [],
        "artifact": row,
    }


def manifest_node(request: Request, row: Artifact, file: File) -> Node:
    """Return an artifact's manifest with its file, for upload or download."""
    return {
        "id": encode_id("ArtifactManifest", row.id),
        "digest": file.digest,
        "file": {
            **_file_node(request, "ArtifactManifestFile", file),
            "upload_url": upload_url(request, file),
            "upload_headers": [],
        },
    }
