"""Requests to a data loader, retried after a lost connection; makes no decisions."""

from __future__ import annotations

import http.client
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from deployer.errors import DataError

T = TypeVar("T")
BLOCK_BYTES = 1 << 20
TIMEOUT_SECONDS = 30.0  # the loader sends a heartbeat every 5 seconds
GREETING_SECONDS = 3.0
PATIENCE_SECONDS = 60.0  # for a connection that is lost repeatedly
PAUSE_SECONDS = 0.3
BROKEN = (OSError, http.client.HTTPException)
HINTS = {  # by the loader's code
    "full": "delete from the volume, or ask for a larger one: `size:` of a new claim",
    "forbidden": "kubernetes.run_as_user: NUMBER in deployer.yaml, the volume's owner",
    "in-the-way": "a file and a folder have the same name: rename or remove one of them",
    "bad-path": "rename it, or remove the link",
    "busy": "wait until it ends",
}
HINT = "type the command again: it resumes where it stopped"


class LoaderRefusal(DataError):
    """The loader's refusal; `reason` is its code."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message, HINTS.get(reason, HINT))
        self.reason = reason


@dataclass(frozen=True)
class SmallFile:
    """A file that is sent whole; without a checksum it is not verified."""

    path: str
    content: bytes
    sha256: str | None = None


class LoaderClient:
    """A client of the loader at `url` with `token`; errors name its volume `where`."""

    def __init__(
        self,
        url: str,
        token: str,
        where: str,
        sleep: Callable[[float], None] = time.sleep,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._address = urlsplit(url).netloc
        self._token = token
        self._where = where
        self._sleep = sleep
        self._patience_seconds = patience_seconds
        self._own = threading.local()  # a connection for each thread

    def wait_until_up(self, check: Callable[[], None] = lambda: None) -> None:
        """Wait until the loader answers; `check` raises if that is hopeless. Raises DataError."""

        def greet() -> None:
            try:
                self._send("GET", "/", {}, timeout_seconds=GREETING_SECONDS)
            except BROKEN:
                check()
                raise
            finally:
                self.close()

        self._again(greet)

    def list_entries(self) -> list[dict[str, Any]]:
        """Return path and size of every file on the volume."""
        return self._again(self._list)

    def is_unfinished(self) -> bool:
        """Return True if a copy to the volume was started and did not finish."""
        return bool(self._ask("GET", "/")["unfinished"])

    def begin(self) -> None:
        """Mark a copy to the volume as started."""
        self._ask("POST", "/begin")

    def end(self) -> None:
        self._ask("POST", "/end")

    def get_checksum(self, path: str) -> str | None:
        """Return the SHA-256 of a file, computed on the volume; None if the file is missing."""
        try:
            return str(self._ask("POST", "/checksum", path=path)["sha256"])
        except LoaderRefusal as refusal:
            if refusal.reason != "missing":
                raise
            return None

    def get_checksums(self, paths: Sequence[str]) -> dict[str, str | None]:
        asked = json.dumps(paths).encode()
        found = self._again(lambda: self._send("POST", "/checksums", {}, asked))
        return dict(zip(paths, found["sha256"], strict=True))

    def get_partial_size(self, identity: str) -> int:
        """Return how many bytes of a file have arrived; 0 if none."""
        return int(self._ask("POST", "/partial", identity=identity)["size_bytes"])

    def write(self, identity: str, offset: int, block: bytes) -> None:
        """Write a block of a file at `offset`; after a lost connection, resume there."""
        sent: int | None = 0  # None while unknown

        def send() -> None:
            nonlocal sent
            if sent is None:
                there = self._send("POST", "/partial", {"identity": identity})["size_bytes"]
                sent = min(max(there - offset, 0), len(block))
            start, sent = sent, None
            query = {"identity": identity, "offset": str(offset + start)}
            self._send("PUT", "/partial", query, block[start:])

        self._again(send)

    def write_many(self, files: Sequence[SmallFile]) -> set[str]:
        """Write small files whole; return the paths whose checksum matched on the volume."""
        listed = [
            {"path": one.path, "size_bytes": len(one.content), "sha256": one.sha256 or ""}
            for one in files
        ]
        head = json.dumps(listed).encode()
        query = {"head_bytes": str(len(head))}
        body = head + b"".join(one.content for one in files)
        return set(self._again(lambda: self._send("PUT", "/files", query, body))["right"])

    def finish(self, path: str, identity: str, size_bytes: int, sha256: str | None) -> bool:
        """Verify and rename a partial file on the volume; False if size or checksum differ."""
        query = {"path": path, "identity": identity, "size_bytes": str(size_bytes)}
        try:
            return bool(self._ask("POST", "/finish", sha256=sha256 or "", **query)["right"])
        except LoaderRefusal as refusal:
            if refusal.reason != "missing":
                raise
            # A first attempt may have succeeded, and its answer was lost.
            return self.get_checksum(path) == sha256

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        self._ask("POST", "/delete", path=path)

    def clear(self) -> bool:
        """Delete everything on the volume; return True if there was a file."""
        return bool(self._ask("POST", "/clear")["found"])

    def read(self, path: str, offset: int) -> Iterator[bytes]:
        """Yield the bytes of a file from `offset`; after a lost connection, resume there."""
        left = -1  # not known yet
        while left:
            try:
                with self._open("GET", "/file", {"path": path, "offset": str(offset)}) as answer:
                    left = answer.length or 0
                    while block := answer.read(BLOCK_BYTES):
                        offset += len(block)
                        left -= len(block)
                        yield block
            except BROKEN:
                self.close()
            if left:
                self._sleep(PAUSE_SECONDS)
                self.wait_until_up()

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        return self._again(lambda: self._read_many(json.dumps(paths).encode()))

    def close(self) -> None:
        connection = self._own.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()

    def _ask(self, method: str, what: str, **query: str) -> dict[str, Any]:
        return self._again(lambda: self._send(method, what, query))

    def _again(self, act: Callable[[], T]) -> T:
        """Retry until it works, or the loader has not answered for too long. Raises DataError."""
        deadline = math.inf  # set at the first failure
        while True:
            try:
                return act()
            except BROKEN as error:
                self.close()
                deadline = min(deadline, time.monotonic() + self._patience_seconds)
                if time.monotonic() >= deadline:
                    said = f"{self._where}: the data loader does not answer: {error}"
                    raise DataError(said, HINT) from error
                self._sleep(PAUSE_SECONDS)

    def _list(self) -> list[dict[str, Any]]:
        with self._open("GET", "/entries", {}) as answer:
            lines = answer.read().splitlines()
        entries = [json.loads(line) for line in lines]
        if not entries or not entries.pop().get("end"):
            raise http.client.IncompleteRead(b"")
        return entries

    def _read_many(self, asked: bytes) -> list[bytes]:
        with self._open("POST", "/files", {}, asked) as answer:
            sizes = json.loads(answer.readline() or b"[-1]")
            held = [answer.read(max(size_bytes, 0)) for size_bytes in sizes]
        if [len(one) for one in held] != sizes:
            raise http.client.IncompleteRead(b"")
        return held

    def _send(
        self,
        method: str,
        what: str,
        query: dict[str, str],
        body: bytes = b"",
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> dict[str, Any]:
        with self._open(method, what, query, body, timeout_seconds) as answer:
            try:
                content: dict[str, Any] = json.loads(answer.read())
            except ValueError as error:
                raise http.client.IncompleteRead(b"") from error
        return self._check(content)

    @contextmanager
    def _open(
        self,
        method: str,
        what: str,
        query: dict[str, str],
        body: bytes = b"",
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Iterator[http.client.HTTPResponse]:
        connection: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(self._address, timeout=timeout_seconds)
            self._own.connection = connection
        headers = {"Authorization": f"Bearer {self._token}", "Content-Length": str(len(body))}
        connection.request(method, f"{what}?{urlencode(query)}", body, headers)
        answer = connection.getresponse()
        if answer.status != 200:
            content = answer.read()
            self.close()
            self._check(json.loads(content or b"{}"))
        try:
            yield answer
        finally:
            if not answer.isclosed():  # the reader stopped early
                self.close()

    def _check(self, content: dict[str, Any]) -> dict[str, Any]:
        if content.get("status") != 200:
            said = content.get("message", "the data loader failed")
            raise LoaderRefusal(f"{self._where}: {said}", str(content.get("code", "")))
        return content
