"""The bytes of files, deduplicated per user, and their signed addresses.

A blob's name on disk is its row's id. A committed id is never reused, so a late deletion cannot hit
a newer blob; `keep` overwrites the file of an id whose transaction was rolled back. Uploads in
progress are in a separate folder.
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


# Free space reserved for the database, which must still be able to write when files are refused.
# The smaller of the two applies, so that a small volume can hold files.
RESERVE_BYTES = 64 * 1024 * 1024
RESERVE_SHARE = 0.05
WRITTEN_BYTES = 1024 * 1024  # buffer size of an upload
WRITERS = 8
CHECKED_BYTES = 16 * 1024 * 1024  # how often to check space for a file of unknown size

INCOMING_FOLDER = "incoming"
UNUSED = "NOT EXISTS (SELECT 1 FROM files WHERE blob_id = blobs.id)"
Action = Literal["upload", "download"]
SIGNING_KEY_FILE = "signing.key"
# An upload may wait in the SDK's queue during an outage; a download starts at once.
SECONDS: dict[Action, int] = {"upload": 24 * 3600, "download": 3600}


@dataclass(frozen=True)
class Received:
    """Completely received bytes, not yet part of a file."""

    path: Path
    md5: str
    size_bytes: int


@dataclass(frozen=True)
class BlobFolder:
    """The folder of the bytes; hold the lock `collecting` to delete blobs, or to prevent that.

    `threads` write uploads.
    """

    content: Path
    incoming: Path
    collecting: threading.Lock = field(default_factory=threading.Lock)
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(WRITERS, "uploads")
    )

    def path(self, blob_id: int) -> Path:
        """Return a blob's path, which never contains a name chosen by a user."""
        return self.content / str(blob_id)

    def check_space(self, size_bytes: int) -> None:
        """Raise NoSpace if `size_bytes` more bytes would fill the disk."""
        disk = shutil.disk_usage(self.content)
        reserve = min(RESERVE_BYTES, int(disk.total * RESERVE_SHARE))
        if size_bytes + reserve > disk.free:
            raise NoSpace(f"{size_bytes} bytes do not fit: {disk.free} bytes are free")

    async def receive(self, blocks: AsyncIterator[bytes], announced_bytes: int = 0) -> Received:
        """Write a stream to a new file; delete it if the stream breaks.

        Separate threads write to the disk, so that a slow disk delays only uploads.
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
        """Write bytes that the server itself created."""
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
    """Move received bytes into the store; deduplicate them per user."""
    found = find(db, BlobRow, user_id=user_id, md5=received.md5)
    if found and folder.path(found.id).exists():
        received.path.unlink()
        return found
    if found is None:
        columns = {"md5": received.md5, "size_bytes": received.size_bytes, "created_at": now}
        found = insert(db, BlobRow, user_id=user_id, **columns)
    # An existing file with a new row's id is from a rolled back transaction: SQLite reuses its ids.
    os.replace(received.path, folder.path(found.id))
    names = os.open(folder.content, os.O_RDONLY)
    try:
        os.fsync(names)
    finally:
        os.close(names)
    return found


def _sync(stream: BinaryIO) -> None:
    """Flush to disk, before the upload is confirmed."""
    stream.flush()
    os.fsync(stream.fileno())


def delete_unreferenced(store: Database, folder: BlobFolder) -> None:
    """Delete unreferenced blobs; the rows first, then the bytes.

    Does nothing while a backup of the backend is being sent.
    """
    if not folder.collecting.acquire(blocking=False):
        return
    try:
        with store.snapshot() as db:
            unused = db.execute(f"SELECT id FROM blobs WHERE {UNUSED}").fetchall()
        if not unused:
            return
        with store.transaction() as db:
            # A file may have started to use one in the meantime.
            one = f"DELETE FROM blobs WHERE id = ? AND {UNUSED}"
            gone = [blob_id for (blob_id,) in unused if db.execute(one, (blob_id,)).rowcount]
        for blob_id in gone:
            folder.path(blob_id).unlink(missing_ok=True)
    finally:
        folder.collecting.release()


# Signed addresses: each permits one action on one file until it expires. The SDK sends no key to an
# upload's address, and a browser or `curl` has none. The signing key never leaves the backend's
# folder, so an address reveals nothing of lasting value.


@dataclass(frozen=True)
class Signer:
    """Creates and verifies addresses with one secret key."""

    key: bytes

    def path(self, action: Action, file_id: int, now: float, name: str = "") -> str:
        """Return a file's path, valid for a day (uploads) or an hour (downloads).

        `name` is the file name of a download.
        """
        place, expires = f"files/{file_id}", int(now) + SECONDS[action]
        path = f"/{action}/{place}/{expires}/{self._signature(action, place, expires)}"
        return f"{path}/{quote(name)}" if name else path

    def check(self, action: Action, place: str, expires: int, given: str, now: float) -> None:
        """Refuse an address with 403 if its signature is invalid or it has expired."""
        signature = self._signature(action, place, expires)
        ours = place.startswith("files/")  # older versions signed ids of dropped tables
        if not ours or not hmac.compare_digest(signature.encode(), given.encode()):
            raise Refusal(403, "permission denied: the address is not signed by this server")
        if now > expires:
            raise Refusal(403, "permission denied: the address has expired; ask for a new one")

    def _signature(self, action: Action, place: str, expires: int) -> str:
        text = f"{action}/{place}/{expires}"
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()[:40]


def load_signer(folder: Path) -> Signer:
    """Return the folder's signer; its addresses stay valid across restarts."""
    path = folder / SIGNING_KEY_FILE
    if not path.exists():
        write_private(path, secrets.token_hex(32))
    return Signer(bytes.fromhex(path.read_text().strip()))
