"""The HTTP endpoints: GraphQL, the file stream, uploads and downloads, health; body limits.

Requests that change something run in the store's writer and are answered once on disk. Requests
that only read run in a thread, with a snapshot.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
import time
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from deployer.backend.data_folder import read_key
from deployer.backend.db.accounts import Caller, find_caller, get_project
from deployer.backend.db.rows import Connection
from deployer.backend.db.runs import RunRow, check_writer, get_run
from deployer.backend.graphql.schema import (
    GraphQL,
    GraphQLRequest,
    Reply,
    describe_failure,
    parse_question,
)
from deployer.backend.request import (
    Refusal,
    answer_in_thread,
    describe_passing,
    find_key,
    is_full,
    parse_object,
    read_in_thread,
)
from deployer.backend.scheduling.context import Backend, Request
from deployer.backend.scheduling.dispatch import MODEL_SECONDS
from deployer.backend.scheduling.suggestions import NotReady
from deployer.backend.scheduling.sweep_control import Unread, read_config
from deployer.backend.server.file_stream import Chunk, apply_chunk, parse_chunk
from deployer.backend.server.monitoring import Monitor, Timing
from deployer.backend.server.transfers import build_transfer_routes
from deployer.backend.storage.backup import stream_copy
from deployer.backend.web.routes import build_page_routes

# The SDK sends a run's stream in chunks of a few megabytes, and larger data as files.
MOST_BYTES = 64 * 1024 * 1024
STRANGERS_BYTES = 64 * 1024
GZIP = 16 + zlib.MAX_WBITS
logger = logging.getLogger(__name__)
# The SDK's header for mode="shared", where several processes write one run.
SHARED_HEADER = "x-wandb-use-async-filestream"


@dataclass(frozen=True)
class Body:
    """The bytes of a request, compressed or not."""

    content: bytes
    packed: bool

    def parse(self) -> dict[str, Any]:
        """Return the JSON object; refuse one that is too big with 413, invalid JSON with 400."""
        content = _unpack(self.content) if self.packed else self.content
        try:
            return parse_object(content.decode() or "{}", "the body")
        except UnicodeDecodeError as error:
            raise Refusal(400, f"the body is not JSON: {error}") from error


async def receive(http: HttpRequest, admit: Callable[[], Awaitable[object]]) -> Body:
    """Return the body; refuse one that is too big with 413.

    `admit` refuses unauthenticated clients before more than STRANGERS_BYTES are in memory.
    """
    announced = http.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > MOST_BYTES:
        raise _too_big()
    received, admitted = bytearray(), False
    async for block in http.stream():
        received += block
        if len(received) > STRANGERS_BYTES and not admitted:
            await admit()
            admitted = True
        if len(received) > MOST_BYTES:
            raise _too_big()
    return Body(bytes(received), http.headers.get("content-encoding") == "gzip")


def _unpack(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj(GZIP)
    try:
        plain = unpacking.decompress(packed, MOST_BYTES)
    except zlib.error as error:
        raise Refusal(400, f"the body is not gzip: {error}") from error
    if unpacking.unconsumed_tail:
        raise _too_big()
    if not unpacking.eof:
        raise Refusal(400, "the body is not gzip: its end is missing")
    return plain


def _too_big() -> Refusal:
    return Refusal(413, f"the body is bigger than {MOST_BYTES} bytes")


def build_app(backend: Backend) -> Starlette:
    surface, monitor = Surface(backend), Monitor(backend)
    return Starlette(
        middleware=[Middleware(Timing, monitor)],
        routes=[
            Route("/healthz", monitor.health),
            Route("/readyz", monitor.ready),
            Route("/metrics", monitor.figures),
            Route("/ready", monitor.health),
            Route("/graphql", surface.graphql, methods=["POST"]),
            Route("/deployer/copy", surface.copy),
            Route(
                "/files/{entity}/{project}/{run}/file_stream",
                surface.file_stream,
                methods=["POST"],
            ),
            *build_transfer_routes(backend, surface.caller),
            *build_page_routes(backend),
        ],
        exception_handlers={
            Refusal: _refuse,
            sqlite3.OperationalError: _unavailable,
            OSError: _unavailable,
        },
    )


def _refuse(_: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return JSONResponse({"errors": [{"message": error.message}]}, status_code=error.status)


def _unavailable(_: HttpRequest, error: Exception) -> Response:
    """Answer 507 if the disk is full, 503 if the database is busy; the SDK retries both."""
    message = describe_passing(error)
    logger.error("%s", message)
    status = HTTPStatus.INSUFFICIENT_STORAGE if is_full(error) else HTTPStatus.SERVICE_UNAVAILABLE
    return JSONResponse({"errors": [{"message": message}]}, status_code=status)


class Surface:
    """The endpoints; each authenticates first."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.schema = GraphQL(backend.plain)

    async def graphql(self, http: HttpRequest) -> Response:
        body = await receive(http, partial(run_in_threadpool, self.caller, http))
        question, changes = await read_in_thread(http, self._read_question, http, body)
        if changes:
            work = partial(self._graphql, http, question, in_writer=True)
            return await self._change(http, work)
        return await answer_in_thread(http, self._query, http, question)

    def _read_question(self, http: HttpRequest, body: Body) -> tuple[GraphQLRequest, bool]:
        self.caller(http)  # authenticate before parsing
        question = parse_question(body.parse())
        return question, self.schema.changes(question)

    def _query(self, http: HttpRequest, question: GraphQLRequest) -> Response:
        with self.backend.store.snapshot():
            return self._graphql(http, question)

    def _graphql(
        self,
        http: HttpRequest,
        question: GraphQLRequest,
        waited: float = 0.0,
        in_writer: bool = False,
    ) -> Response:
        shared, caller = SHARED_HEADER in http.headers, self.caller(http)
        request = Request(self.backend, caller, _base_url(http), shared, waited, in_writer)
        return _reply(self.schema.answer(request, question))

    async def _change(self, http: HttpRequest, work: Callable[[float], Response]) -> Response:
        """Run a change in the writer's thread, and repeat it until it has an answer.

        All changes share that thread, so it must not wait. Work that lacks input raises an
        exception and is rolled back; this coroutine provides the input and runs the work again.
        `Unread` needs a parsed configuration; `NotReady` needs a suggestion, for at most
        MODEL_SECONDS in total. `_Undone` is a refusal, which only rolls back.
        """
        begun, waited = time.monotonic(), 0.0
        while True:
            try:
                return await asyncio.wrap_future(self.backend.store.submit(_undoing(work, waited)))
            except _Undone as undone:
                return undone.reply
            except Unread as unread:
                await answer_in_thread(http, read_config, unread.config)
            except NotReady as early:
                ready = asyncio.shield(asyncio.wrap_future(early.ready))
                try:
                    await asyncio.wait_for(ready, max(0.0, MODEL_SECONDS - waited))
                except TimeoutError:
                    waited = MODEL_SECONDS
                except Exception as failure:
                    return _reply(describe_failure(failure))
                else:
                    waited = time.monotonic() - begun

    async def copy(self, http: HttpRequest) -> Response:
        """Send a backup to the owner of the data folder, whose key is in it."""
        owner = await run_in_threadpool(read_key, self.backend.folder)
        key = find_key(http.headers)
        if self.backend.plain or not secrets.compare_digest(key.encode(), owner.encode()):
            raise Refusal(403, "only the backend's own user may copy it")
        stream = stream_copy(self.backend.folder, self.backend.blobs)
        # Get the first block, which is ready after the copy of the database: until then, failures
        # have a status.
        first = await run_in_threadpool(next, stream)
        return StreamingResponse(chain((first,), stream), media_type="application/x-tar")

    async def file_stream(self, http: HttpRequest) -> Response:
        body = await receive(http, partial(run_in_threadpool, self.caller, http))
        chunk = await read_in_thread(http, self._read_chunk, http, body)
        return await asyncio.wrap_future(
            self.backend.store.submit(partial(self._file_stream, http, chunk))
        )

    def _read_chunk(self, http: HttpRequest, body: Body) -> Chunk:
        self.caller(http)
        return parse_chunk(body.parse())

    def _file_stream(self, http: HttpRequest, chunk: Chunk, db: Connection) -> Response:
        caller = self.caller(http)
        run = self._run(db, caller, http)
        check_writer(db, caller, run)
        return JSONResponse(apply_chunk(self.backend, db, run, chunk))

    def caller(self, http: HttpRequest) -> Caller:
        """Return the caller of the request's key; refuse an unknown key with 401."""
        with self.backend.store.snapshot() as db:
            caller = find_caller(db, find_key(http.headers))
        if caller is None:
            raise Refusal(401, "the API key is not valid for this server")
        return caller

    def _run(self, db: Connection, caller: Caller, http: HttpRequest) -> RunRow:
        place = http.path_params
        project = get_project(db, caller, place["entity"], place["project"])
        return get_run(db, project, place["run"])


class _Undone(Exception):
    """Rolls back the changes of a request that is refused."""

    def __init__(self, reply: Response) -> None:
        super().__init__("refused")
        self.reply = reply


def _undoing(work: Callable[[float], Response], waited: float) -> Callable[[Connection], Response]:
    """Return a change that is rolled back unless its answer is 200."""

    def change(_: Connection) -> Response:
        reply = work(waited)
        if reply.status_code != HTTPStatus.OK:
            raise _Undone(reply)
        return reply

    return change


def _reply(answer: Reply) -> Response:
    status, body = answer
    return JSONResponse(body, status_code=status)


def _base_url(http: HttpRequest) -> str:
    """Return the address at which the client reached us, which also works for its uploads."""
    return str(http.base_url).rstrip("/")
