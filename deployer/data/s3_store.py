"""A folder of an S3 object store, with uploads that a later process resumes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from deployer.data.object_failures import CHANGED, is_gone, is_timeout, translate, translating
from deployer.data.store import (
    CHECKSUM,
    COPY_MARK,
    PARTIAL_FOLDER,
    Entry,
    Store,
    check_path,
    is_own,
)
from deployer.errors import DataError
from deployer.installation import install_command
from deployer.waiting import TIMEOUTS_SECONDS, waiting_for

T = TypeVar("T")
TRIES = 4
FIRST_WAIT_SECONDS = 0.25
SETTINGS = {
    "connect_timeout": TIMEOUTS_SECONDS[0],
    "read_timeout": TIMEOUTS_SECONDS[1],
    "retries": {"mode": "standard", "max_attempts": 0},  # `_ask` retries
    "signature_version": "s3v4",
    # Not every server knows newer checksums; each request is sent with its MD5.
    "request_checksum_calculation": "when_required",
    "response_checksum_validation": "when_required",
}
LEAST_PART_BYTES = 8 << 20
MOST_PARTS = 10_000  # S3's limit
READ_BYTES = 8 << 20  # per request; the next one runs meanwhile
GONE_HINT = "do not change the source during a copy; type the command again"


class S3Client:
    """One bucket; `where` is its name in messages.

    `credentials` are by the names of Amazon's variables. By default they are found like Amazon's
    own tools do: environment, files, the machine's role. Threads may share it. Raises DataError.
    """

    def __init__(
        self,
        bucket: str,
        endpoint_url: str | None,
        where: str,
        credentials: Mapping[str, str] | None = None,
    ) -> None:
        self.where = where
        self._bucket = bucket
        given = credentials or {}
        with waiting_for(where):  # importing the client takes a second
            file_system = _load_client(where)
        self._files = file_system(
            key=given.get("AWS_ACCESS_KEY_ID"),
            secret=given.get("AWS_SECRET_ACCESS_KEY"),
            token=given.get("AWS_SESSION_TOKEN"),
            endpoint_url=endpoint_url,
            config_kwargs=SETTINGS,
            skip_instance_cache=True,
            use_listings_cache=False,
        )
        self._files.retries = 1

    def call(self, method: str, **arguments: Any) -> Any:
        return self._await(self._begin(self._ask(method, **arguments)))

    def call_if_there(self, method: str, **arguments: Any) -> Any:
        """Call a method; None if the object or upload does not exist."""
        try:
            return self.call(method, **arguments)
        except DataError as error:
            if error.__cause__ is not None and is_gone(error.__cause__):
                return None
            raise

    def fetch(self, key: str, etag: str = "", **arguments: Any) -> Future[bytes]:
        """Start fetching an object, or a piece of it; with `etag`, only of that version.

        `await_bytes` waits for it.
        """
        condition = {"IfMatch": etag} if etag else {}

        async def fetch() -> bytes:
            answer = await self._ask("get_object", Key=key, **condition, **arguments)
            async with answer["Body"] as body:
                held: bytes = await body.read()
            if etag and answer["ETag"] != etag:  # the server ignores conditions
                raise DataError(f"{self.where}: {CHANGED[0]}", CHANGED[1])
            return held

        return self._begin(fetch())

    def await_bytes(self, fetched: Future[bytes]) -> bytes:
        return self._await(fetched)

    async def _ask(self, method: str, **arguments: Any) -> Any:
        """Send a request; retry transient failures, except timeouts."""
        tries = 1
        while True:
            try:
                return await self._files._call_s3(method, Bucket=self._bucket, **arguments)
            except Exception as error:
                found = translate(error, self.where)
                if tries == TRIES or is_timeout(error) or found is None or not found.passing:
                    raise
            await asyncio.sleep(FIRST_WAIT_SECONDS * 2**tries)
            tries += 1

    def _begin(self, asked: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(asked, self._files.loop)

    def _await(self, begun: Future[T]) -> T:
        with translating(self.where):
            return begun.result()

    def get_if_there(self, key: str) -> bytes | None:
        """Return the content of a small object; None if it does not exist."""
        try:
            return self.await_bytes(self.fetch(key))
        except DataError as error:
            if error.__cause__ is not None and is_gone(error.__cause__):
                return None
            raise

    def close(self) -> None:
        with suppress(Exception):
            self._files.close_session(self._files.loop, self._files._s3)


def _load_client(where: str) -> Any:
    try:
        from s3fs import S3FileSystem
    except ImportError as error:
        hint = install_command("s3")
        raise DataError(f"{where}: the package s3fs is not installed", hint) from error
    return S3FileSystem


# Uploads to an object store that a later process resumes. A large object is sent as S3's multipart
# upload, which is invisible until completed. A small object next to the data, named by the content,
# records each upload's id. So any process on any machine that sends the same content resumes it.


@dataclass(frozen=True)
class _Part:
    number: int
    etag: str
    size_bytes: int


class Uploads:
    """The uploads to the objects of a bucket that start with `prefix`."""

    def __init__(self, client: S3Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._small: dict[str, bytes] = {}
        self._wrong: set[str] = set()
        self._lock = Lock()

    def find_size(self, entry: Entry) -> int:
        """Return how many bytes of this content the server has, in complete parts only."""
        if entry.size_bytes <= choose_part_bytes(entry.size_bytes):
            return 0
        upload_id = self._find_upload(entry)
        parts = self._list_parts(entry, upload_id) if upload_id else []
        return sum(part.size_bytes for part in parts)

    def send(self, entry: Entry, chunks: Iterable[bytes], offset: int) -> None:
        part_bytes = choose_part_bytes(entry.size_bytes)
        if entry.size_bytes <= part_bytes:
            with self._lock:
                self._small[entry.identity] = b"".join(chunks)
            return
        upload_id = self._find_upload(entry) if offset else self._begin(entry)
        if upload_id is None:
            said = f"{self._client.where}: the server dropped the upload"
            raise DataError(said, "type the command again", passing=True)
        content = hashlib.sha256()
        for number, part in enumerate(_cut(chunks, part_bytes), offset // part_bytes + 1):
            content.update(part)
            self._send_part(entry, upload_id, number, part)
        with self._lock:
            self._wrong.discard(entry.identity)
            # A resumed upload is not hashed: its parts have their MD5, and the source checks
            # itself.
            if offset == 0 and entry.sha256 not in (None, content.hexdigest()):
                self._wrong.add(entry.identity)

    def complete(self, entry: Entry) -> bool:
        """Create the object from the upload; if that is wrong, return False and keep nothing."""
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
        """Return the recorded key and id of an upload."""
        held = self._client.get_if_there(self._prefix + name)
        if held is None:
            return None
        try:
            noted = json.loads(held)
            return str(noted["key"]), str(noted["upload_id"])
        except (ValueError, KeyError, TypeError):
            return None

    def _list_parts(self, entry: Entry, upload_id: str) -> Sequence[_Part]:
        """Return the leading parts, up to a missing one or one of another size."""
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
    """Return the part size of an object: the same for every sender."""
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


class ObjectStore(Store):
    """The objects below an address such as s3://BUCKET/FOLDER.

    Each object keeps its checksum in its metadata.
    """

    parallel = 8

    def __init__(
        self,
        url: str,
        endpoint_url: str | None = None,
        credentials: Mapping[str, str] | None = None,
    ) -> None:
        self._url = url
        bucket, _, folder = url.split("://", 1)[1].partition("/")
        self._prefix = f"{folder.rstrip('/')}/" if folder else ""
        where = f"{url} at {endpoint_url}" if endpoint_url else url
        self._client = S3Client(bucket, endpoint_url, where, credentials)
        self._listed: dict[str, Entry] = {}
        self._uploads = Uploads(self._client, self._prefix)

    def describe(self) -> str:
        return self._url

    def list_entries(self) -> Sequence[Entry]:
        """Return every object below the address; rejects names that are invalid for files."""
        found = [entry for entry in self._list("") if not is_own(entry.path)]
        self._listed = {check_path(entry.path): entry for entry in found}
        return sorted(found, key=lambda entry: entry.path)

    def checksum(self, path: str) -> str | None:
        found = self._head(path)
        return found["Metadata"].get(CHECKSUM) if found else None

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Yield an object's bytes, all of the one version that was listed."""
        entry = self._listed.get(path) or self._find(path)
        begins = range(offset, entry.size_bytes, READ_BYTES)
        ahead = self._fetch(entry, begins[0]) if begins else None
        for begin in begins:
            assert ahead is not None
            held = self._client.await_bytes(ahead)
            if begin + READ_BYTES < entry.size_bytes:
                ahead = self._fetch(entry, begin + READ_BYTES)
            yield held

    def partial_size(self, entry: Entry) -> int:
        """Return how many bytes of the unfinished upload the server has."""
        return self._uploads.find_size(entry)

    def write(self, entry: Entry, chunks: Iterable[bytes], offset: int = 0) -> None:
        """Upload in parts, each with its MD5; content of a single part waits for `finish`."""
        self._uploads.send(entry, chunks, offset)

    def finish(self, entry: Entry) -> bool:
        """Make the object visible, if every byte was sent and the checksum is correct."""
        return self._uploads.complete(entry)

    def delete(self, path: str) -> None:
        self._client.call("delete_object", Key=self._key(path))

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Mark the copy by an object; drop the remains of earlier uploads at the end."""
        self._client.call("put_object", Key=self._key(COPY_MARK), Body=b"")
        yield
        self._drop_uploads()

    def is_unfinished(self) -> bool:
        return bool(self._list(PARTIAL_FOLDER + "/"))

    def delete_all(self) -> bool:
        unfinished = self.is_unfinished()
        paths = [entry.path for entry in self.list_entries()]
        with ThreadPoolExecutor(self.parallel) as pool:
            list(pool.map(self.delete, paths))
        self._drop_uploads()
        return unfinished or bool(paths)

    def close(self) -> None:
        self._client.close()

    def _drop_uploads(self) -> None:
        for entry in self._list(PARTIAL_FOLDER + "/"):
            if entry.path != COPY_MARK:
                self._uploads.drop(entry.path)
        self.delete(COPY_MARK)

    def _key(self, path: str) -> str:
        return self._prefix + path

    def _list(self, below: str) -> list[Entry]:
        """Return the objects whose path starts so, except names of folders."""
        found: list[Entry] = []
        token: dict[str, str] = {}
        while True:
            page = self._client.call("list_objects_v2", Prefix=self._key(below), **token)
            for one in page.get("Contents", ()):
                path = one["Key"].removeprefix(self._prefix)
                if path and not path.endswith("/"):
                    found.append(Entry(path, one["Size"], tag=one["ETag"]))
            if not page.get("IsTruncated"):
                return found
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def _head(self, path: str) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self._client.call_if_there(
            "head_object", Key=self._key(path)
        )
        return found

    def _find(self, path: str) -> Entry:
        found = self._head(path)
        if found is None:
            raise DataError(f"{self._url}/{path}: object not found", GONE_HINT)
        return Entry(path, found["ContentLength"], tag=found["ETag"])

    def _fetch(self, entry: Entry, begin: int) -> Future[bytes]:
        last = min(begin + READ_BYTES, entry.size_bytes) - 1
        piece = f"bytes={begin}-{last}"
        return self._client.fetch(self._key(entry.path), etag=entry.tag, Range=piece)
