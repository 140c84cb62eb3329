"""Commits a pending version of an artifact if all of its files are stored.

W&B's client lists them in a manifest (JSON, version 1). An entry is either a stored file, found by
its MD5, or a reference to an external object that the server never reads.
"""

from __future__ import annotations

import hashlib
import json
from functools import reduce
from typing import Any

from deployer.backend.db.artifacts import LATEST, Artifact, set_aliases, take_version
from deployer.backend.db.files import (
    File,
    ManifestEntry,
    check_name,
    list_patches,
    promise_manifest,
    set_content,
    write_entries,
)
from deployer.backend.db.rows import Connection, change, delete, find, get
from deployer.backend.request import Refusal, parse_object
from deployer.backend.storage.blob_folder import BlobFolder, keep

ManifestDocument = dict[str, Any]


def commit_artifact(db: Connection, folder: BlobFolder, row: Artifact, now: float) -> Artifact:
    """Number a version and point its aliases to it; idempotent.

    Refuse with 400 while its manifest, or a listed file, is missing.
    """
    if row.committed:
        return row
    patches = [patch for patch, _ in list_patches(db, row)]
    parts = patches or [row]
    if row.manifest_type == "INCREMENTAL" and row.base_id is not None:
        parts = [get(db, Artifact, row.base_id), row]
    manifest = reduce(_merge, [read_manifest(db, folder, one) for one in parts])
    if parts != [row]:
        content = json.dumps(manifest).encode()
        blob = keep(db, folder, row.user_id, folder.write(content), now)
        set_content(db, promise_manifest(db, row), blob, now)
    if patches:  # its digest covers only the first run's files
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        row = change(db, row, digest=digest, client_id=None, updated_at=now)
        for one in patches:
            delete(db, one)
    entries = _list_entries(manifest)
    write_entries(db, row, entries)
    row = change(
        db,
        row,
        version=take_version(db, row.collection_id),
        size_bytes=sum(entry.size_bytes or 0 for entry in entries),
        file_count=len(entries),
        updated_at=now,
    )
    set_aliases(db, row, dict.fromkeys([*json.loads(row.wanted_aliases), LATEST]))
    return row


def read_manifest(db: Connection, folder: BlobFolder, row: Artifact) -> ManifestDocument:
    """Return a version's manifest; refuse with 400 if it is missing or invalid."""
    file = find(db, File, artifact_id=row.id, manifest=1)
    if file is None or file.blob_id is None:
        raise Refusal(400, "artifact is incomplete: its manifest was not sent")
    content = folder.path(file.blob_id).read_bytes()
    try:
        document = parse_object(content.decode(), "the manifest")
        contents = document["contents"]
    except (ValueError, KeyError, Refusal) as error:
        raise Refusal(400, f"the artifact's manifest cannot be read: {error!r}") from error
    if not isinstance(contents, dict) or not all(map(_is_entry, contents.values())):
        raise Refusal(400, "the artifact's manifest has no list of files")
    return dict(document)


def _is_entry(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("digest"), str)
        and isinstance(value.get("ref"), str | None)
        and isinstance(size := value.get("size"), int | None)
        and -(2**63) <= (size or 0) < 2**63
    )


def _list_entries(document: ManifestDocument) -> list[ManifestEntry]:
    """Return a manifest's files; refuse a name that leads out of a folder with 400."""
    return [
        ManifestEntry(check_name(name), part["digest"], part.get("size"), part.get("ref"))
        for name, part in document["contents"].items()
    ]


def _merge(base: ManifestDocument, changes: ManifestDocument) -> ManifestDocument:
    return {**base, **changes, "contents": {**base["contents"], **changes["contents"]}}


def commit_hash(row: Artifact) -> str:
    """Return a permanent hash of this version's content and number."""
    text = f"{row.collection_id}:{row.version}:{row.digest}"
    return hashlib.sha256(text.encode()).hexdigest()[:20]
