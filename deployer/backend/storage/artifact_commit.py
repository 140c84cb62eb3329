"""Commits a pending version of an artifact if all of its files are there."""

from __future__ import annotations

import hashlib
import json
from functools import reduce

from deployer.backend.db.artifacts.aliases import LATEST, set_aliases
from deployer.backend.db.artifacts.collections import collection_by_id, take_version
from deployer.backend.db.artifacts.files import write_entries
from deployer.backend.db.artifacts.manifest import (
    Document,
    list_entries,
    merge_manifests,
    parse_manifest,
)
from deployer.backend.db.artifacts.versions import (
    Artifact,
    artifact_by_id,
    change_artifact,
    delete_artifact,
    list_patches,
)
from deployer.backend.db.blobs import blob_by_id
from deployer.backend.db.database import Connection
from deployer.backend.refusal import Refusal
from deployer.backend.storage.blob_folder import BlobFolder, keep


def commit_artifact(db: Connection, folder: BlobFolder, row: Artifact, now: float) -> Artifact:
    """Number a version and let its aliases point to it; asking again changes nothing.

    Refuse with 400 while its manifest, or a file that this lists, is not there.
    """
    if row.committed:
        return row
    patches = list_patches(db, row)
    parts = patches or [row]
    if row.manifest_type == "INCREMENTAL" and row.base_id is not None:
        parts = [artifact_by_id(db, row.base_id), row]
    manifest = reduce(merge_manifests, [read_manifest(db, folder, one) for one in parts])
    if parts != [row]:
        content = json.dumps(manifest).encode()
        blob = keep(db, folder, row.user_id, folder.write(content), now)
        row = change_artifact(db, row, now, manifest_blob_id=blob.id)
    if patches:  # the digest is that of the first run's files alone
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        row = change_artifact(db, row, now, digest=digest, client_id=None)
        for one in patches:
            delete_artifact(db, one)
    entries = list_entries(manifest)
    write_entries(db, row, entries)
    collection = collection_by_id(db, row.collection_id)
    version = take_version(db, collection)
    row = change_artifact(
        db,
        row,
        now,
        version=version,
        size_bytes=sum(entry.size_bytes or 0 for entry in entries),
        file_count=len(entries),
    )
    set_aliases(db, row, dict.fromkeys([*json.loads(row.wanted_aliases), LATEST]))
    return row


def read_manifest(db: Connection, folder: BlobFolder, row: Artifact) -> Document:
    """Return a version's manifest; refuse with 400 if it has not come."""
    blob = blob_by_id(db, row.manifest_blob_id)
    if blob is None:
        raise Refusal(400, "artifact is incomplete: its manifest was not sent")
    return parse_manifest(folder.path(blob.id).read_bytes())


def commit_hash(row: Artifact) -> str:
    """Return what names this version's content and place for good."""
    text = f"{row.collection_id}:{row.version}:{row.digest}"
    return hashlib.sha256(text.encode()).hexdigest()[:20]
