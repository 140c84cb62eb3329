"""Uploads to an object store that a later process goes on with.

A large object is sent as S3's multipart upload, which nobody sees before it is completed. Beside
the data lies a small object for each, under the name of the content, with the upload's id: so
whoever sends the same content goes on with it, from any machine.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

from deployer.data.s3_client import S3Client
from deployer.data.tree import CHECKSUM, PARTIAL_FOLDER, Entry
from deployer.errors import DataError

LEAST_PART_BYTES = 8 << 20
MOST_PARTS = 10_000  # of S3


@dataclass(frozen=True)
class _Part:
    number: int
    etag: str
    size_bytes: int


class Uploads:
    """The uploads to the objects of a bucket that begin with `prefix`."""

    def __init__(self, client: S3Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._small: dict[str, bytes] = {}
        self._wrong: set[str] = set()
        self._lock = Lock()

    def find_size(self, entry: Entry) -> int:
        """Return how many bytes of this content the server has, whole parts only."""
        if entry.size_bytes <= choose_part_bytes(entry.size_bytes):
            return 0
        upload_id = self._find_upload(entry)
        parts = self._list_parts(entry, upload_id) if upload_id else []
        return sum(part.size_bytes for part in parts)

    def send(self, entry: Entry, chunks: Iterable[bytes], offset: int) -> None:
        """Send the rest of an object from `offset` on."""
        part_bytes = choose_part_bytes(entry.size_bytes)
        if entry.size_bytes <= part_bytes:
            with self._lock:
                self._small[entry.identity] = b"".join(chunks)
            return
        upload_id = self._find_upload(entry) if offset else self._begin(entry)
        if upload_id is None:
            said = f"{self._client.where}: the upload was dropped meanwhile"
            raise DataError(said, "type the command again", passing=True)
        content = hashlib.sha256()
        for number, part in enumerate(_cut(chunks, part_bytes), offset // part_bytes + 1):
            content.update(part)
            self._send_part(entry, upload_id, number, part)
        with self._lock:
            self._wrong.discard(entry.identity)
            # Of one that goes on, the parts have their MD5 and the source looks after itself.
            if offset == 0 and entry.sha256 not in (None, content.hexdigest()):
                self._wrong.add(entry.identity)

    def complete(self, entry: Entry) -> bool:
        """Make the object of what was sent; False, and nothing is kept, if that is wrong."""
        with self._lock:
            held = self._small.pop(entry.identity, None)
        if held is not None:
            return self._put_small(entry, held)
        upload_id = self._find_upload(entry)
        parts = self._list_parts(entry, upload_id) if upload_id else []
        whole = sum(part.size_bytes for part in parts) == entry.size_bytes
        if not whole or entry.identity in self._wrong:
            self.drop(_name(entry))
            return False
        numbered = [{"PartNumber": part.number, "ETag": part.etag} for part in parts]
        self._client.call(
            "complete_multipart_upload",
            Key=self._prefix + entry.path,
            UploadId=upload_id,
            MultipartUpload={"Parts": numbered},
        )
        self._client.call("delete_object", Key=self._prefix + _name(entry))
        return True

    def drop(self, name: str) -> None:
        """Forget an upload that has not ended, and what names it."""
        noted = self._read_note(name)
        if noted:
            key, upload_id = noted
            self._client.call_if_there("abort_multipart_upload", Key=key, UploadId=upload_id)
        self._client.call("delete_object", Key=self._prefix + name)

    def _put_small(self, entry: Entry, held: bytes) -> bool:
        right = entry.sha256 in (None, hashlib.sha256(held).hexdigest())
        if not right or len(held) != entry.size_bytes:
            return False
        self._client.call(
            "put_object",
            Key=self._prefix + entry.path,
            Body=held,
            ContentMD5=_md5(held),
            Metadata=_build_metadata(entry),
        )
        return True

    def _begin(self, entry: Entry) -> str:
        self.drop(_name(entry))
        begun = self._client.call(
            "create_multipart_upload",
            Key=self._prefix + entry.path,
            Metadata=_build_metadata(entry),
        )
        upload_id = str(begun["UploadId"])
        note = json.dumps({"key": self._prefix + entry.path, "upload_id": upload_id})
        self._client.call("put_object", Key=self._prefix + _name(entry), Body=note.encode())
        return upload_id

    def _send_part(self, entry: Entry, upload_id: str, number: int, part: bytes) -> None:
        self._client.call(
            "upload_part",
            Key=self._prefix + entry.path,
            UploadId=upload_id,
            PartNumber=number,
            Body=part,
            ContentMD5=_md5(part),
        )

    def _find_upload(self, entry: Entry) -> str | None:
        noted = self._read_note(_name(entry))
        return noted[1] if noted else None

    def _read_note(self, name: str) -> tuple[str, str] | None:
        """Return the key and the id of an upload, as they were written down."""
        held = self._client.get_if_there(self._prefix + name)
        if held is None:
            return None
        try:
            noted = json.loads(held)
            return str(noted["key"]), str(noted["upload_id"])
        except (ValueError, KeyError, TypeError):
            return None

    def _list_parts(self, entry: Entry, upload_id: str) -> Sequence[_Part]:
        """Return the parts from the first on, up to one that is missing or has another size."""
        part_bytes = choose_part_bytes(entry.size_bytes)
        found: list[_Part] = []
        for part in self._each_part(entry, upload_id):
            begin = len(found) * part_bytes
            wanted = min(part_bytes, entry.size_bytes - begin)
            if part.number != len(found) + 1 or part.size_bytes != wanted:
                break
            found.append(part)
        return found

    def _each_part(self, entry: Entry, upload_id: str) -> Iterator[_Part]:
        marker = 0
        while True:
            page = self._client.call_if_there(
                "list_parts",
                Key=self._prefix + entry.path,
                UploadId=upload_id,
                PartNumberMarker=marker,
            )
            for one in (page or {}).get("Parts", ()):
                yield _Part(one["PartNumber"], one["ETag"], one["Size"])
            if not page or not page.get("IsTruncated"):
                return
            marker = page["NextPartNumberMarker"]


def choose_part_bytes(size_bytes: int) -> int:
    """Return how large the parts of an object are: the same whoever sends it."""
    return LEAST_PART_BYTES * max(1, -(-size_bytes // (MOST_PARTS * LEAST_PART_BYTES)))


def _cut(chunks: Iterable[bytes], part_bytes: int) -> Iterator[bytes]:
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) >= part_bytes:
            yield bytes(held[:part_bytes])
            del held[:part_bytes]
    if held:
        yield bytes(held)


def _name(entry: Entry) -> str:
    return f"{PARTIAL_FOLDER}/{entry.identity}"


def _build_metadata(entry: Entry) -> dict[str, str]:
    return {CHECKSUM: entry.sha256} if entry.sha256 else {}


def _md5(held: bytes) -> str:
    return base64.b64encode(hashlib.md5(held, usedforsecurity=False).digest()).decode()
