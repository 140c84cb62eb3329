"""Files of a run: promised by `createRunFiles`, sent by PUT to a signed address."""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass

from deployer.backend.db.blobs import Blob
from deployer.backend.db.database import Connection, delete, insert, select, select_one, update
from deployer.backend.refusal import Refusal, not_found

LONGEST_NAME = 1024


@dataclass(frozen=True)
class File:
    """A run's file; one that was promised and not uploaded has no `blob_id`."""

    id: int
    run_id: int
    name: str
    blob_id: int | None
    uploaded_at: float | None
    md5: str | None
    size_bytes: int | None

    @property
    def mimetype(self) -> str:
        """Guess the media type from the name."""
        return guess_mimetype(self.name)


def guess_mimetype(name: str) -> str:
    """Guess the media type of a file from its name."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def check_name(name: str) -> str:
    """Return a file's name; refuse with 400 one that would leave the folder it is saved into."""
    parts = name.split("/")
    unsafe = name.startswith("/") or ".." in parts or "\\" in name or "\0" in name
    if unsafe or not name or len(name) > LONGEST_NAME:
        raise Refusal(400, f"invalid file name {name[:LONGEST_NAME]!r}")
    return name


def promise_file(db: Connection, run_id: int, name: str) -> File:
    """Return the row of a file that is about to come, the same one if asked again."""
    tail = "files WHERE run_id = ? AND name = ?"
    found = select_one(db, File, tail, run_id, check_name(name))
    if found:
        return found
    return file_by_id(db, insert(db, "run_files", run_id=run_id, name=name))


def file_by_id(db: Connection, file_id: int) -> File:
    """Return a file, promised or uploaded; refuse with 404 if there is none."""
    file = select_one(db, File, "files WHERE id = ?", file_id)
    if file is None:
        raise not_found("file")
    return file


def find_file(db: Connection, run_id: int, name: str) -> File | None:
    """Return an uploaded file."""
    tail = "files WHERE run_id = ? AND name = ? AND blob_id IS NOT NULL"
    return select_one(db, File, tail, run_id, name)


def list_files(db: Connection, run_id: int) -> list[File]:
    """Return the uploaded files, by name."""
    tail = "files WHERE run_id = ? AND blob_id IS NOT NULL ORDER BY name"
    return select(db, File, tail, [run_id])


def set_content(db: Connection, file: File, blob: Blob, now: float) -> None:
    """Attach these bytes to a file."""
    update(db, "run_files", file.id, blob_id=blob.id, uploaded_at=now)


def delete_file(db: Connection, file_id: int) -> None:
    """Delete a file; its bytes are deleted once nothing else uses them."""
    delete(db, "run_files", file_id)
