"""Files of runs, of artifacts, and manifests: promised first, then sent to a signed address.

Their bytes are blobs, one row for each content and user; `storage.blob_folder` stores the bytes.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from deployer.backend.db.artifacts import PATCH, Artifact
from deployer.backend.db.rows import (
    Connection,
    TableRow,
    change,
    find,
    find_all,
    insert,
    select,
    select_one,
    update,
)
from deployer.backend.request import Refusal

LONGEST_NAME = 1024
MANIFEST_NAME = "wandb_manifest.json"


@dataclass(frozen=True)
class BlobRow(TableRow):
    """Bytes of one user; `md5` is base64, as W&B writes digests.

    Always look it up with its user, so that a digest gives no access to another user's bytes.
    """

    table: ClassVar = "blobs"
    noun: ClassVar = "file"

    user_id: int
    md5: str
    size_bytes: int


@dataclass(frozen=True)
class File(TableRow):
    """A file of a run or of an artifact's version, or with `manifest` the list of its files.

    Without a `blob_id`, its bytes are missing or at the address `reference`. `digest` is base64
    MD5, or the digest of the referenced store; a run's file has none before its upload.
    """

    table: ClassVar = "files"
    noun: ClassVar = "file"

    run_id: int | None
    artifact_id: int | None
    manifest: int
    name: str
    digest: str | None
    size_bytes: int | None
    reference: str | None
    blob_id: int | None
    uploaded_at: float | None

    @property
    def mimetype(self) -> str:
        return guess_mimetype(self.name)


@dataclass(frozen=True)
class ManifestEntry:
    """One file of a manifest; `digest` is base64 MD5 unless there is a `reference`."""

    name: str
    digest: str
    size_bytes: int | None
    reference: str | None


def guess_mimetype(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def is_unnamed(name: str) -> bool:
    """Return True for a name that a user's file may have but no saved file can, such as " "."""
    return name != "" and (min(name) < " " or name.rpartition("/")[2].strip() in ("", "."))


def check_name(name: str) -> str:
    """Return a file's name; refuse one that would leave its folder, or is invalid, with 400."""
    parts = name.split("/")
    unsafe = name.startswith("/") or ".." in parts or "\\" in name or is_unnamed(name)
    if unsafe or not name or len(name) > LONGEST_NAME:
        raise Refusal(
            400, f"invalid file name {name[:LONGEST_NAME]!r}: no file can be saved under it"
        )
    return name


def promise_file(db: Connection, run_id: int, name: str) -> File:
    """Return the row of a run's file before its upload; idempotent."""
    place = {"run_id": run_id, "name": check_name(name)}
    return find(db, File, **place) or insert(db, File, **place)


def promise_artifact_file(db: Connection, row: Artifact, name: str, md5: str) -> File:
    """Return the row of a file before its upload, with its bytes if already stored.

    Refuse a file that a committed version lacks with 400.
    """
    place = {"artifact_id": row.id, "manifest": 0, "name": check_name(name)}
    found = find(db, File, **place)
    if row.committed:
        if found is None or found.digest != md5:
            raise Refusal(400, "artifact is committed: its files cannot change")
        return found
    blob = find(db, BlobRow, user_id=row.user_id, md5=md5)
    content = {
        "digest": md5,
        "blob_id": blob.id if blob else None,
        "size_bytes": blob.size_bytes if blob else None,
        "uploaded_at": None,
    }
    return change(db, found, **content) if found else insert(db, File, **place, **content)


def promise_manifest(db: Connection, row: Artifact, md5: str | None = None) -> File:
    """Return the row of a version's manifest; the digest may follow later."""
    place = {"artifact_id": row.id, "manifest": 1}
    found = find(db, File, **place) or insert(db, File, **place, name=MANIFEST_NAME)
    return change(db, found, digest=md5) if md5 else found


def set_content(db: Connection, file: File, blob: BlobRow, now: float) -> None:
    """Attach bytes to a file; a manifest keeps the digest from its client."""
    digest = file.digest if file.manifest else blob.md5
    size = blob.size_bytes
    update(db, file, blob_id=blob.id, digest=digest, size_bytes=size, uploaded_at=now)


def list_run_files(db: Connection, run_id: int) -> list[File]:
    return select(db, File, "WHERE run_id = ? AND blob_id IS NOT NULL ORDER BY name", run_id)


def list_artifact_files(db: Connection, row: Artifact) -> list[File]:
    return find_all(db, File, "name", artifact_id=row.id, manifest=0)


def list_patches(db: Connection, row: Artifact) -> list[tuple[Artifact, str]]:
    """Return the patches of runs that write a version together, oldest first.

    Each comes with its manifest's digest. A patch without a digest is empty and left out.
    """
    patch = "collection_id = ? AND base_id = ? AND manifest_type = ?"
    values = (row.collection_id, row.id, PATCH)
    manifests = f"WHERE manifest = 1 AND artifact_id IN (SELECT id FROM artifacts WHERE {patch})"
    digests = {file.artifact_id: file.digest for file in select(db, File, manifests, *values)}
    patches = select(db, Artifact, f"WHERE {patch} ORDER BY id", *values)
    return [(one, digest) for one in patches if (digest := digests.get(one.id))]


def find_by_digest(db: Connection, collection_id: int, md5: str) -> File | None:
    tail = (
        "WHERE digest = ? AND blob_id IS NOT NULL AND manifest = 0 AND artifact_id IN"
        " (SELECT id FROM artifacts WHERE collection_id = ?)"
    )
    return select_one(db, File, tail, md5, collection_id)


def write_entries(db: Connection, row: Artifact, entries: Sequence[ManifestEntry]) -> None:
    """Replace promised files with the manifest's; refuse with 400 if any bytes are missing."""
    values = []
    missing = []
    for entry in entries:
        known = (
            None if entry.reference else find(db, BlobRow, user_id=row.user_id, md5=entry.digest)
        )
        if known is None and entry.reference is None:
            missing.append(entry.name)
        size, blob_id = (known.size_bytes, known.id) if known else (entry.size_bytes, None)
        values.append((row.id, entry.name, entry.digest, size, entry.reference, blob_id))
    if missing:
        shown = ", ".join(missing[:5])
        raise Refusal(400, f"artifact is incomplete: {len(missing)} files were not sent: {shown}")
    listed = {entry.name for entry in entries}
    unlisted = [(file.id,) for file in list_artifact_files(db, row) if file.name not in listed]
    db.executemany("DELETE FROM files WHERE id = ?", unlisted)
    # The rows stay, since another run may still be sending the same files to their addresses.
    db.executemany(
        "INSERT INTO files (artifact_id, name, digest, size_bytes, reference, blob_id)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (artifact_id, manifest, name) DO UPDATE SET"
        " digest = excluded.digest, size_bytes = excluded.size_bytes,"
        " reference = excluded.reference, blob_id = excluded.blob_id",
        values,
    )
