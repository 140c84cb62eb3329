"""The S3 client, fsspec's, for one bucket: calls, and pieces of objects; refusals become ours."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from deployer.data.object_failures import CHANGED, is_gone, is_timeout, telling, translate
from deployer.errors import DataError
from deployer.installation import install_command
from deployer.waiting import TIMEOUTS_SECONDS, waiting_for

T = TypeVar("T")
TRIES = 4
FIRST_WAIT_SECONDS = 0.25
SETTINGS = {
    "connect_timeout": TIMEOUTS_SECONDS[0],
    "read_timeout": TIMEOUTS_SECONDS[1],
    "retries": {"mode": "standard", "max_attempts": 0},  # `_ask` decides
    "signature_version": "s3v4",
    # Newer checksums are not known to every server; what is sent has its MD5 with it.
    "request_checksum_calculation": "when_required",
    "response_checksum_validation": "when_required",
}


class S3Client:
    """One bucket; `where` names it in messages.

    `credentials` are by the names of Amazon's variables; without them they are found as Amazon's
    own tools find them: environment, files, the machine's role. Threads may share it. Raises
    DataError.
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
        with waiting_for(where):  # loading the client alone takes a second
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
        """Call one of the client's methods on the bucket, and return its answer."""
        return self._await(self._begin(self._ask(method, **arguments)))

    def call_if_there(self, method: str, **arguments: Any) -> Any:
        """Call a method; None if there is no such object or upload."""
        try:
            return self.call(method, **arguments)
        except DataError as error:
            if error.__cause__ is not None and is_gone(error.__cause__):
                return None
            raise

    def fetch(self, key: str, etag: str = "", **arguments: Any) -> Future[bytes]:
        """Begin to get an object, or a piece of it, of one version if `etag` is given.

        `await_bytes` waits for it.
        """
        condition = {"IfMatch": etag} if etag else {}

        async def fetch() -> bytes:
            answer = await self._ask("get_object", Key=key, **condition, **arguments)
            async with answer["Body"] as body:
                held: bytes = await body.read()
            if etag and answer["ETag"] != etag:  # a server that knows no conditions
                raise DataError(f"{self.where}: {CHANGED[0]}", CHANGED[1])
            return held

        return self._begin(fetch())

    def await_bytes(self, fetched: Future[bytes]) -> bytes:
        """Return what `fetch` has got."""
        return self._await(fetched)

    async def _ask(self, method: str, **arguments: Any) -> Any:
        """Send a request; again after a failure that may pass, but not after a timeout."""
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
        with telling(self.where):
            return begun.result()

    def get_if_there(self, key: str) -> bytes | None:
        """Return what a small object holds; None if there is none."""
        try:
            return self.await_bytes(self.fetch(key))
        except DataError as error:
            if error.__cause__ is not None and is_gone(error.__cause__):
                return None
            raise

    def close(self) -> None:
        """Close the connections."""
        with suppress(Exception):
            self._files.close_session(self._files.loop, self._files._s3)


def _load_client(where: str) -> Any:
    try:
        from s3fs import S3FileSystem
    except ImportError as error:
        hint = install_command("s3")
        raise DataError(f"{where}: the package s3fs is not installed", hint) from error
    return S3FileSystem
