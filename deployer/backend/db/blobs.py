"""Blobs: one row for each content of one user; its bytes lie in `storage.blob_folder`."""

from __future__ import annotations

from dataclasses import dataclass

from deployer.backend.db.database import Connection, select_one


@dataclass(frozen=True)
class Blob:
    """Bytes of one user; `md5` is base64, as W&B writes digests."""

    id: int
    user_id: int
    md5: str
    size_bytes: int


def find_blob(db: Connection, user_id: int, md5: str) -> Blob | None:
    """Return a user's blob of this content, never another user's: a digest gives no access."""
    return select_one(db, Blob, "blobs WHERE user_id = ? AND md5 = ?", user_id, md5)


def blob_by_id(db: Connection, blob_id: int | None) -> Blob | None:
    """Return a blob."""
    return select_one(db, Blob, "blobs WHERE id = ?", blob_id)
