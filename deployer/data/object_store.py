"""A folder of an S3 object store, Amazon's or any other with its own address."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from deployer.data.s3_client import S3Client
from deployer.data.store import Store
from deployer.data.tree import CHECKSUM, COPY_MARK, PARTIAL_FOLDER, Entry, check_path, is_own
from deployer.data.uploads import Uploads
from deployer.errors import DataError

READ_BYTES = 8 << 20  # of one request; the next one is under way meanwhile
GONE_HINT = "leave the source alone, then type the command again"


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
        """Name the address."""
        return self._url

    def list_entries(self) -> Sequence[Entry]:
        """Return every object below the address; refuses names that no file can have."""
        found = [entry for entry in self._list("") if not is_own(entry.path)]
        self._listed = {check_path(entry.path): entry for entry in found}
        return sorted(found, key=lambda entry: entry.path)

    def checksum(self, path: str) -> str | None:
        """Return the checksum that was kept with the object when it was put there."""
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
        """Upload in parts, each with its MD5; what fits into one part waits for `finish`."""
        self._uploads.send(entry, chunks, offset)

    def finish(self, entry: Entry) -> bool:
        """Let the object appear, if every byte was sent and the checksum is right."""
        return self._uploads.complete(entry)

    def delete(self, path: str) -> None:
        """Delete the object."""
        self._client.call("delete_object", Key=self._key(path))

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Keep an object as the mark; what remains of earlier uploads is dropped at the end."""
        self._client.call("put_object", Key=self._key(COPY_MARK), Body=b"")
        yield
        self._drop_uploads()

    def is_unfinished(self) -> bool:
        """Tell whether there is a mark."""
        return bool(self._list(PARTIAL_FOLDER + "/"))

    def delete_all(self) -> bool:
        """Delete every object, and every upload that has not ended."""
        unfinished = self.is_unfinished()
        paths = [entry.path for entry in self.list_entries()]
        with ThreadPoolExecutor(self.parallel) as pool:
            list(pool.map(self.delete, paths))
        self._drop_uploads()
        return unfinished or bool(paths)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _drop_uploads(self) -> None:
        for entry in self._list(PARTIAL_FOLDER + "/"):
            if entry.path != COPY_MARK:
                self._uploads.drop(entry.path)
        self.delete(COPY_MARK)

    def _key(self, path: str) -> str:
        return self._prefix + path

    def _list(self, below: str) -> list[Entry]:
        """Return the objects whose path begins so; the names of folders are none."""
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
            raise DataError(f"{self._url}/{path}: there is no such object", GONE_HINT)
        return Entry(path, found["ContentLength"], tag=found["ETag"])

    def _fetch(self, entry: Entry, begin: int) -> Future[bytes]:
        """Begin to get one piece of one version of an object."""
        last = min(begin + READ_BYTES, entry.size_bytes) - 1
        piece = f"bytes={begin}-{last}"
        return self._client.fetch(self._key(entry.path), etag=entry.tag, Range=piece)
