"""The bytes of files: each content once for each user, at addresses that are signed.

A blob's name on disk is its row's id. Once committed, an id is never reused, so a late deletion
cannot hit a newer blob; `keep` overwrites the file of an id whose transaction was undone. Uploads
in progress are in a separate folder.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
import secrets
import shutil
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal
from urllib.parse import quote

from deployer.backend.data_folder import write_private
from deployer.backend.db.files import BlobRow
from deployer.backend.db.rows import Connection, find, insert
from deployer.backend.db.store import Database
from deployer.backend.request import NoSpace, Refusal

if TYPE_CHECKING:
    from hashlib import _Hash as Hash


# Left free for the database, which must be able to write that a file was refused: the smaller of
# the two, so that a small volume has room for files at all.
RESERVE_BYTES = 64 * 1024 * 1024
RESERVE_SHARE = 0.05
WRITTEN_BYTES = 1024 * 1024  # of an upload, together
WRITERS = 8
CHECKED_BYTES = 16 * 1024 * 1024  # of a file whose size nobody said, after which space is checked

INCOMING_FOLDER = "incoming"
UNUSED = "NOT EXISTS (SELECT 1 FROM files WHERE blob_id = blobs.id)"
Action = Literal["upload", "download"]
SIGNING_KEY_FILE = "signing.key"
# An upload waits in the SDK's queue through an outage; a download begins when it is asked for.
SECONDS: dict[Action, int] = {"upload": 24 * 3600, "download": 3600}


@dataclass(frozen=True)
class Received:
    """Bytes that have come whole and belong to nothing yet."""

    path: Path
    md5: str
    size_bytes: int


@dataclass(frozen=True)
class BlobFolder:
    """Where the bytes are; `collecting` is held while blobs are deleted, or must not be.

    `threads` write uploads.
    """

    content: Path
    incoming: Path
    collecting: threading.Lock = field(default_factory=threading.Lock)
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(WRITERS, "uploads")
    )

    def path(self, blob_id: int) -> Path:
        """Return where a blob is; no name that a user chose becomes part of a path."""
        return self.content / str(blob_id)

    def check_space(self, size_bytes: int) -> None:
        """Raise NoSpace if so many bytes would fill the disk."""
        disk = shutil.disk_usage(self.content)
        reserve = min(RESERVE_BYTES, int(disk.total * RESERVE_SHARE))
        if size_bytes + reserve > disk.free:
            raise NoSpace(f"{size_bytes} bytes do not fit: {disk.free} are free")

    async def receive(self, blocks: AsyncIterator[bytes], announced_bytes: int = 0) -> Received:
        """Write what comes to a file of its own; a stream that breaks leaves nothing behind.

        The disk is left to threads of its own: a slow one delays uploads and nothing else.
        """
        in_thread = partial(asyncio.get_running_loop().run_in_executor, self.threads)
        await in_thread(self.check_space, announced_bytes)
        path = self.incoming / secrets.token_hex(8)
        digest, waiting = hashlib.md5(usedforsecurity=False), bytearray()
        stream = await in_thread(path.open, "wb")
        try:
            async for block in blocks:
                waiting += block
                if len(waiting) >= WRITTEN_BYTES:
                    await in_thread(self._append, stream, digest, bytes(waiting))
                    waiting.clear()
            await in_thread(self._append, stream, digest, bytes(waiting))
            await in_thread(_sync, stream)
            size = stream.tell()
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            stream.close()
        return Received(path, base64.b64encode(digest.digest()).decode(), size)

    def _append(self, stream: BinaryIO, digest: Hash, content: bytes) -> None:
        before = stream.tell()
        digest.update(content)
        stream.write(content)
        if stream.tell() // CHECKED_BYTES > before // CHECKED_BYTES:
            self.check_space(0)

    def write(self, content: bytes) -> Received:
        """Write bytes that the server itself made."""
        path = self.incoming / secrets.token_hex(8)
        with path.open("wb") as stream:
            stream.write(content)
            _sync(stream)
        digest = hashlib.md5(content, usedforsecurity=False).digest()
        return Received(path, base64.b64encode(digest).decode(), len(content))

    def clear_leftovers(self, store: Database) -> None:
        """Delete what a killed server left: half-received files, and bytes without a row."""
        for path in self.incoming.iterdir():
            path.unlink(missing_ok=True)
        with store.transaction() as db:
            known = {str(row[0]) for row in db.execute("SELECT id FROM blobs")}
        for path in self.content.iterdir():
            if path.name not in known:
                path.unlink(missing_ok=True)


def keep(
    db: Connection, folder: BlobFolder, user_id: int, received: Received, now: float
) -> BlobRow:
    """Take received bytes into the store; the same content is kept once."""
    found = find(db, BlobRow, user_id=user_id, md5=received.md5)
    if found and folder.path(found.id).exists():
        received.path.unlink()
        return found
    if found is None:
        columns = {"md5": received.md5, "size_bytes": received.size_bytes, "created_at": now}
        found = insert(db, BlobRow, user_id=user_id, **columns)
    # A file under a new row's id is of a transaction that was undone: SQLite reuses its ids.
    os.replace(received.path, folder.path(found.id))
    names = os.open(folder.content, os.O_RDONLY)
    try:
        os.fsync(names)
    finally:
        os.close(names)
    return found


def _sync(stream: BinaryIO) -> None:
    """Have what was written on the disk before anybody is told that it was received."""
    stream.flush()
    os.fsync(stream.fileno())


def delete_unreferenced(store: Database, folder: BlobFolder) -> None:
    """Delete the blobs to which nothing refers any more; the rows first, then the bytes.

    While a copy of the backend is made, they stay until the next call.
    """
    if not folder.collecting.acquire(blocking=False):
        return
    try:
        with store.snapshot() as db:
            unused = db.execute(f"SELECT id FROM blobs WHERE {UNUSED}").fetchall()
        if not unused:
            return
        with store.transaction() as db:
            # A file may have begun to use one since.
            one = f"DELETE FROM blobs WHERE id = ? AND {UNUSED}"
            gone = [blob_id for (blob_id,) in unused if db.execute(one, (blob_id,)).rowcount]
        for blob_id in gone:
            folder.path(blob_id).unlink(missing_ok=True)
    finally:
        folder.collecting.release()


# Signed addresses: each permits one action on one file until a certain time. The SDK sends no key
# to an upload's address, and a browser or `curl` has none. The key that signs never leaves the
# backend's folder, so an address tells nothing that outlives it.


@dataclass(frozen=True)
class Signer:
    """Makes and checks addresses with one secret key."""

    key: bytes

    def path(self, action: Action, file_id: int, now: float, name: str = "") -> str:
        """Return a file's path, good for a day (uploads) or an hour (downloads).

        A download is saved under the name.
        """
        place, expires = f"files/{file_id}", int(now) + SECONDS[action]
        path = f"/{action}/{place}/{expires}/{self._signature(action, place, expires)}"
        return f"{path}/{quote(name)}" if name else path

    def check(self, action: Action, place: str, expires: int, given: str, now: float) -> None:
        """Refuse with 403 an address that was not made here, or whose time is over."""
        signature = self._signature(action, place, expires)
        ours = place.startswith("files/")  # older versions signed numbers of tables that are gone
        if not ours or not hmac.compare_digest(signature.encode(), given.encode()):
            raise Refusal(403, "permission denied: the address is not signed by this server")
        if now > expires:
            raise Refusal(403, "permission denied: the address has expired; ask for a new one")

    def _signature(self, action: Action, place: str, expires: int) -> str:
        text = f"{action}/{place}/{expires}"
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()[:40]


def load_signer(folder: Path) -> Signer:
    """Return the folder's signer; addresses stay good when the server starts again."""
    path = folder / SIGNING_KEY_FILE
    if not path.exists():
        write_private(path, secrets.token_hex(32))
    return Signer(bytes.fromhex(path.read_text().strip()))
