"""A folder of Google Cloud Storage. An interrupted upload restarts, file by file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

from deployer.data.object_failures import translating
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
from deployer.waiting import TIMEOUTS_SECONDS

PIECE_BYTES = 8 << 20  # per request; Google accepts multiples of 256 KiB
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
SECRET_HINT = (
    "kubectl create secret generic NAME --from-file=key.json=FILE, a service account's key"
)


class GcsStore(Store):
    """The objects below an address such as gs://BUCKET/FOLDER, with their checksums.

    Credentials are found like Google's own tools do, or among the values of `credentials`.
    """

    parallel = 4

    def __init__(
        self,
        url: str,
        endpoint_url: str | None = None,
        credentials: Mapping[str, str] | None = None,
    ) -> None:
        self._url = url
        self._root = url.split("://", 1)[1].rstrip("/")
        self._where = f"{url} at {endpoint_url}" if endpoint_url else url
        self._files = _open_client(endpoint_url, self._where, credentials)
        self._open: dict[str, tuple[Any, str, int]] = {}
        self._lock = Lock()

    def describe(self) -> str:
        return self._url

    def list_entries(self) -> Sequence[Entry]:
        """Return every object below the address; rejects names that are invalid for files."""
        found = [entry for entry in self._list(self._root) if not is_own(entry.path)]
        for entry in found:
            check_path(entry.path)
        return sorted(found, key=lambda entry: entry.path)

    def checksum(self, path: str) -> str | None:
        with translating(self._where):
            try:
                found = self._files.info(self._place(path))
            except FileNotFoundError:
                return None
        held = (found.get("metadata") or {}).get(CHECKSUM)
        return str(held) if held else None

    def read(self, path: str, offset: int = 0) -> Iterator[bytes]:
        with translating(self._where):
            size_bytes = int(self._files.info(self._place(path))["size"])
        for begin in range(offset, size_bytes, PIECE_BYTES):
            with translating(self._where):
                end = min(begin + PIECE_BYTES, size_bytes)
                held: bytes = self._files.cat_file(self._place(path), begin, end)
            yield held

    def partial_size(self, entry: Entry) -> int:
        """Return 0: only the process that started an upload can continue it."""
        return 0

    def write(self, entry: Entry, chunks: Iterable[bytes], offset: int = 0) -> None:
        """Upload the object; it is invisible before `finish`."""
        metadata = {CHECKSUM: entry.sha256} if entry.sha256 else {}
        content, size_bytes = hashlib.sha256(), 0
        with translating(self._where):
            upload = self._files.open(
                self._place(entry.path),
                "wb",
                block_size=PIECE_BYTES,
                autocommit=False,
                metadata=metadata,
            )
        for chunk in chunks:
            content.update(chunk)
            size_bytes += len(chunk)
            with translating(self._where):
                upload.write(chunk)
        with self._lock:
            self._open[entry.identity] = (upload, content.hexdigest(), size_bytes)

    def finish(self, entry: Entry) -> bool:
        """Make the object visible, if every byte was sent and the checksum is correct."""
        with self._lock:
            found = self._open.pop(entry.identity, None)
        if found is None:
            return False
        upload, sha256, size_bytes = found
        right = size_bytes == entry.size_bytes and entry.sha256 in (None, sha256)
        with translating(self._where):
            if not right:
                with suppress(Exception):  # Google drops the rest after a week
                    upload.discard()
                return False
            upload.close()
            upload.commit()
        return True

    def delete(self, path: str) -> None:
        with translating(self._where), suppress(FileNotFoundError):
            self._files.rm_file(self._place(path))

    @contextmanager
    def copying(self) -> Iterator[None]:
        with translating(self._where):
            self._files.pipe_file(self._place(COPY_MARK), b"")
        yield
        self.delete(COPY_MARK)

    def is_unfinished(self) -> bool:
        return any(True for _ in self._list(self._place(PARTIAL_FOLDER)))

    def delete_all(self) -> bool:
        unfinished = self.is_unfinished()
        found = super().delete_all()
        self.delete(COPY_MARK)
        return unfinished or found

    def close(self) -> None:
        with suppress(Exception):
            self._files.close_session(self._files.loop, self._files.session)

    def _place(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _list(self, folder: str) -> Iterator[Entry]:
        with translating(self._where):
            self._files.invalidate_cache()
            found = self._files.find(folder, detail=True)
        for name, one in found.items():
            path = name.removeprefix(f"{self._root}/")
            if one["type"] == "file" and path != name:
                sha256 = (one.get("metadata") or {}).get(CHECKSUM)
                yield Entry(path, int(one["size"]), sha256, tag=str(one["generation"]))


def _open_client(
    endpoint_url: str | None, where: str, credentials: Mapping[str, str] | None
) -> Any:
    try:
        # Not the package's own class, which queries the kind of each bucket over gRPC.
        from aiohttp import ClientTimeout, ServerTimeoutError
        from gcsfs.core import GCSFileSystem
        from gcsfs.retry import retry_request
    except ImportError as error:
        hint = install_command("gcs")
        raise DataError(f"{where}: the package gcsfs is not installed", hint) from error
    connect, read = TIMEOUTS_SECONDS

    class Files(GCSFileSystem):  # type: ignore[misc]
        """Does not retry requests after a timeout."""

        @retry_request(retries=GCSFileSystem.retries)  # type: ignore[untyped-decorator]
        async def _request(self, *given: Any, **named: Any) -> Any:
            try:
                return await GCSFileSystem._request.__wrapped__(self, *given, **named)
            except ServerTimeoutError as error:
                raise TimeoutError(str(error)) from error

    return Files(
        requests_timeout=ClientTimeout(sock_connect=connect, sock_read=read),
        token=None if credentials is None else _load_key(credentials, where),
        endpoint_url=endpoint_url,
        skip_instance_cache=True,
        use_listings_cache=False,
    )


def _load_key(credentials: Mapping[str, str], where: str) -> Any:
    """Return the credentials from a value with JSON; raises DataError."""
    from google.auth.exceptions import GoogleAuthError
    from google.oauth2.service_account import Credentials

    load: Any = Credentials.from_service_account_info
    for value in credentials.values():
        try:
            info = json.loads(value)
        except ValueError:
            continue
        if isinstance(info, dict):
            try:
                return load(info, scopes=[SCOPE])
            except (GoogleAuthError, ValueError, TypeError) as error:
                said = f"{where}: Google does not accept the key in the Secret"
                raise DataError(said, SECRET_HINT) from error
    raise DataError(f"{where}: the Secret has no service account key", SECRET_HINT)
