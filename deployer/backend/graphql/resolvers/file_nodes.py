"""Files of runs and of artifacts as W&B's one type `File`, with their signed addresses."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from ariadne import ObjectType

from deployer.backend.db.artifacts.files import ArtifactFile
from deployer.backend.db.artifacts.versions import Artifact
from deployer.backend.db.files import File
from deployer.backend.db.projects import Project
from deployer.backend.db.runs.runs import Run, check_writer
from deployer.backend.graphql.resolvers.wire import encode_id, iso_time
from deployer.backend.scheduling.context import Request
from deployer.backend.storage.signed_urls import (
    ARTIFACT_FILES,
    MANIFESTS,
    RUN_FILES,
    Action,
    Target,
)

Node = dict[str, Any]

file_type = ObjectType("File")
file_type.set_alias("md5", "md5")  # by its own rule the library would look for `md_5`


def signed_url(request: Request, action: Action, target: Target) -> str:
    """Return an address at which the client reaches us, good for this action and a limited time."""
    backend = request.backend
    return request.base_url + backend.signer.path(action, target, backend.now())


def upload_url(request: Request, file: File) -> str:
    """Return the address for the upload of a run's file."""
    return signed_url(request, "upload", Target(RUN_FILES, file.id))


def run_file_node(request: Request, file: File, run: Run, project: Project) -> Node:
    """Return a run's file; `url` asks for a key, `directUrl` is signed.

    An address to write to is for those alone who may write to the run.
    """
    place = "/".join(quote(part) for part in (project.entity, project.name, run.name))
    keyed = f"{request.base_url}/files/{place}/{quote(file.name)}"

    def url(_: Any, upload: bool | None = None) -> str:
        if not upload:
            return keyed
        with request.backend.store.transaction() as db:
            check_writer(db, request.caller, run)
        return upload_url(request, file)

    return {
        "id": encode_id("File", file.id),
        "name": file.name,
        "display_name": file.name,
        "url": url,
        "direct_url": signed_url(request, "download", Target(RUN_FILES, file.id, file.name)),
        "size_bytes": file.size_bytes,
        "mimetype": file.mimetype,
        "updated_at": iso_time(file.uploaded_at),
        "md5": file.md5,
        "digest": file.md5,
    }


def artifact_file_node(request: Request, file: ArtifactFile, row: Artifact) -> Node:
    """Return an artifact's file; a reference has the address that it refers to."""
    target = Target(ARTIFACT_FILES, file.id, file.name)
    direct = file.reference or signed_url(request, "download", target)
    return {
        "id": encode_id("ArtifactFile", file.id),
        "name": file.name,
        "display_name": file.name,
        "url": direct,
        "direct_url": direct,
        "size_bytes": file.size_bytes or 0,
        "mimetype": file.mimetype,
        "updated_at": iso_time(row.updated_at),
        "md5": None if file.reference else file.digest,
        "digest": file.digest,
        "storage_path": storage_path(file),
    }


def promised_file_node(request: Request, file: ArtifactFile, row: Artifact) -> Node:
    """Return a promised file; it has no address if its bytes are here already."""
    address = signed_url(request, "upload", Target(ARTIFACT_FILES, file.id))
    return {
        "id": encode_id("ArtifactFile", file.id),
        "name": file.name,
        "display_name": file.name,
        "storage_path": storage_path(file),
        "upload_url": None if file.blob_id else address,
        "upload_headers": [],
        "artifact": row,
    }


def storage_path(file: ArtifactFile) -> str:
    """Return W&B's name for where a file is kept, which clients show and nobody uses."""
    return f"wandb_artifacts/{file.artifact_id}/{file.id}"


def manifest_node(request: Request, row: Artifact) -> Node:
    """Return an artifact's manifest with its file, for upload or download."""
    name = "wandb_manifest.json"
    fetched = signed_url(request, "download", Target(MANIFESTS, row.id, name))
    file: Node = {
        "id": encode_id("ArtifactManifestFile", row.id),
        "name": name,
        "display_name": name,
        "url": fetched,
        "direct_url": fetched,
        "upload_url": signed_url(request, "upload", Target(MANIFESTS, row.id)),
        "upload_headers": [],
        "digest": row.manifest_md5,
        "md5": row.manifest_md5,
    }
    return {
        "id": encode_id("ArtifactManifest", row.id),
        "digest": row.manifest_md5,
        "file": file,
    }
