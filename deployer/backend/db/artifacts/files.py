"""Files of artifacts: promised one by one while a version is pending, listed by its manifest after.

If the server has the bytes already, the promised file gets them at once and keeps them from being
deleted before the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deployer.backend.db.artifacts.manifest import Entry
from deployer.backend.db.artifacts.versions import Artifact
from deployer.backend.db.blobs import Blob, find_blob
from deployer.backend.db.database import Connection, insert, select, select_one, update
from deployer.backend.db.files import check_name, guess_mimetype
from deployer.backend.refusal import Refusal, not_found


@dataclass(frozen=True)
class ArtifactFile:
    """A file of a version; without a `blob_id` its bytes are missing, or a `reference` tells where.

    `digest` is base64 MD5, or whatever the referenced store uses as one.
    """

    id: int
    artifact_id: int
    name: str
    digest: str
    size_bytes: int | None
    reference: str | None
    blob_id: int | None

    @property
    def mimetype(self) -> str:
        """Guess the media type from the name."""
        return guess_mimetype(self.name)


def promise_artifact_file(db: Connection, row: Artifact, name: str, md5: str) -> ArtifactFile:
    """Return the row of a file that is about to come, with its bytes if they are here already.

    Refuse with 400 a file that a committed version lacks.
    """
    found = find_artifact_file(db, row, check_name(name))
    if row.committed:
        if found is None or found.digest != md5:
            raise Refusal(400, "artifact is committed: its files cannot change")
        return found
    blob = find_blob(db, row.user_id, md5)
    blob_id = blob.id if blob else None
    if found is None:
        columns = {"name": name, "digest": md5, "blob_id": blob_id}
        return artifact_file_by_id(db, insert(db, "artifact_files", artifact_id=row.id, **columns))
    update(db, "artifact_files", found.id, digest=md5, blob_id=blob_id)
    return artifact_file_by_id(db, found.id)


def artifact_file_by_id(db: Connection, file_id: int) -> ArtifactFile:
    """Return a file; refuse with 404 if there is none."""
    found = select_one(db, ArtifactFile, "artifact_files WHERE id = ?", file_id)
    if found is None:
        raise not_found("artifact file")
    return found


def find_artifact_file(db: Connection, row: Artifact, name: str) -> ArtifactFile | None:
    """Return a version's file by its path."""
    tail = "artifact_files WHERE artifact_id = ? AND name = ?"
    return select_one(db, ArtifactFile, tail, row.id, name)


def find_by_digest(db: Connection, collection_id: int, md5: str) -> ArtifactFile | None:
    """Return a file of this content in any version of a collection."""
    tail = (
        "artifact_files WHERE digest = ? AND blob_id IS NOT NULL AND artifact_id IN"
        " (SELECT id FROM artifacts WHERE collection_id = ?)"
    )
    return select_one(db, ArtifactFile, tail, md5, collection_id)


def list_artifact_files(db: Connection, row: Artifact) -> list[ArtifactFile]:
    """Return a version's files, by path."""
    tail = "artifact_files WHERE artifact_id = ? ORDER BY name"
    return select(db, ArtifactFile, tail, [row.id])


def set_artifact_content(db: Connection, file: ArtifactFile, blob: Blob) -> None:
    """Attach these bytes to a promised file."""
    update(db, "artifact_files", file.id, blob_id=blob.id)


def write_entries(db: Connection, row: Artifact, entries: Sequence[Entry]) -> None:
    """Replace promises by what the manifest lists; refuse with 400 if any bytes are missing."""
    values = []
    missing = []
    for entry in entries:
        blob = None if entry.reference else find_blob(db, row.user_id, entry.digest)
        if blob is None and entry.reference is None:
            missing.append(entry.name)
        size = blob.size_bytes if blob else entry.size_bytes
        blob_id = blob.id if blob else None
        values.append((row.id, entry.name, entry.digest, size, entry.reference, blob_id))
    if missing:
        shown = ", ".join(missing[:5])
        raise Refusal(400, f"artifact is incomplete: {len(missing)} files were not sent: {shown}")
    listed = {entry.name for entry in entries}
    unlisted = [(file.id,) for file in list_artifact_files(db, row) if file.name not in listed]
    db.executemany("DELETE FROM artifact_files WHERE id = ?", unlisted)
    # The rows stay, since another run may still be sending the same files to their addresses.
    db.executemany(
        "INSERT INTO artifact_files (artifact_id, name, digest, size_bytes, reference, blob_id)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (artifact_id, name) DO UPDATE SET"
        " digest = excluded.digest, size_bytes = excluded.size_bytes,"
        " reference = excluded.reference, blob_id = excluded.blob_id",
        values,
    )
