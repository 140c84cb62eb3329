"""Files of a run: promised by `createRunFiles`, sent by PUT to an address nobody can guess."""

from __future__ import annotations

import base64
import mimetypes
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from deployer.backend.refusal import not_found
from deployer.backend.store import Connection, delete, insert, select, select_one, update


@dataclass(frozen=True)
class File:
    """A run's file; one that was promised and never came has no `uploaded_at`."""

    id: int
    run_id: int
    name: str
    token: str
    size_bytes: int | None
    md5: str | None
    uploaded_at: float | None

    @property
    def mimetype(self) -> str:
        """Guess the media type from the name."""
        return mimetypes.guess_type(self.name)[0] or "application/octet-stream"


def promise_file(db: Connection, run_id: int, name: str) -> File:
    """Return the row of a file that is about to come; asking again gives the same."""
    found = select_one(db, File, "files WHERE run_id = ? AND name = ?", run_id, name)
    if found:
        return found
    token = secrets.token_urlsafe(32)
    row_id = insert(db, "files", run_id=run_id, name=name, token=token)
    return File(row_id, run_id, name, token, None, None, None)


def file_by_token(db: Connection, token: str) -> File:
    """Return the file that an upload address stands for; refuse with 404 if there is none."""
    file = select_one(db, File, "files WHERE token = ?", token)
    if file is None:
        raise not_found("upload")
    return file


def find_file(db: Connection, run_id: int, name: str) -> File | None:
    """Return a file that has come."""
    tail = "files WHERE run_id = ? AND name = ? AND uploaded_at IS NOT NULL"
    return select_one(db, File, tail, run_id, name)


def list_files(db: Connection, run_id: int) -> list[File]:
    """Return the files that have come, by name."""
    tail = "files WHERE run_id = ? AND uploaded_at IS NOT NULL ORDER BY name"
    return select(db, File, tail, [run_id])


def adopt_content(
    db: Connection, folder: Path, file: File, partial: Path, md5_digest: bytes, now: float
) -> None:
    """Take a wholly received `partial` as the file's bytes."""
    size = partial.stat().st_size
    os.replace(partial, content_path(folder, file))
    md5 = base64.b64encode(md5_digest).decode()
    update(db, "files", file.id, size_bytes=size, md5=md5, uploaded_at=now)


def content_path(folder: Path, file: File) -> Path:
    """Return where a file's bytes are; its name never becomes part of a path."""
    return folder / str(file.id)


def delete_file(db: Connection, folder: Path, file_id: int) -> None:
    """Delete a file's row and bytes."""
    delete(db, "files", file_id)
    (folder / str(file_id)).unlink(missing_ok=True)
