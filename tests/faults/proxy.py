"""An HTTP proxy in front of a real backend that delays, cuts, loses and refuses by rules.

What no rule touches passes unchanged, the Host header included, so that upload addresses lead
through the proxy too.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web

Kind = Literal["delay", "refuse", "cut", "lose_reply", "status"]
Reply = TypeVar("Reply")

LARGEST_BODY_BYTES = 1 << 28
# RFC 9110, 7.6.1: these belong to one connection; the length is written anew for each.
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "content-length"}
_OPERATION = re.compile(r"\b(?:query|mutation)\s+(\w+)")


@dataclass(frozen=True)
class Fault:
    """A rule: what happens to the requests that it matches.

    `match` is a regular expression searched in `<operation> <path>`, the operation being GraphQL's,
    or `file_stream`, or `upload`. `refuse` drops the request unread by the server, `lose_reply`
    lets the server act and drops its answer, `cut` ends the connection amid the answer.
    `probability` and `count` (the most times it happens) choose among the matching requests.
    """

    kind: Kind
    match: str = ""
    status: int = 503
    retry_after_seconds: int | None = None
    delay_seconds: float = 0.0
    probability: float = 1.0
    count: int | None = None


@dataclass(frozen=True)
class Passage:
    """One request in the journal; `status` is None where the client got no whole answer."""

    at: float
    operation: str
    path: str
    status: int | None
    fault: Kind | None


@dataclass
class _Rules:
    """The rules in force; used by the proxy's own thread, set by the test's."""

    random: random.Random
    faults: tuple[Fault, ...] = ()
    happened: dict[Fault, int] = field(default_factory=dict)

    def choose(self, operation: str, path: str) -> Fault | None:
        """Return the first rule that this request falls to."""
        for fault in self.faults:
            used_up = fault.count is not None and self.happened.get(fault, 0) >= fault.count
            if used_up or not re.search(fault.match, f"{operation} {path}"):
                continue
            if self.random.random() < fault.probability:
                self.happened[fault] = self.happened.get(fault, 0) + 1
                return fault
        return None


class FaultProxy:
    """Serves in a thread of its own on one port, for as long as the `with` block lasts."""

    def __init__(self, upstream_url: str, *faults: Fault, seed: int = 0) -> None:
        self.upstream_url = upstream_url.rstrip("/")
        self.journal: list[Passage] = []
        self._rules = _Rules(random.Random(seed), faults)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        # Bound and never listening: it keeps the port ours while nobody answers on it.
        self._place = _bind(0)
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where clients reach the proxy."""
        return f"http://127.0.0.1:{self._place.getsockname()[1]}"

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self.come_back()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_away()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._place.close()

    def set_faults(self, *faults: Fault) -> None:
        """Replace the rules; none lets everything pass."""
        self._rules.faults = faults

    def go_away(self) -> None:
        """Refuse connections from now on and break those that are open."""
        self._run(self._stop())

    def come_back(self) -> None:
        """Accept connections on the same port again."""
        self._run(self._start())

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Be away for as long as the `with` block lasts."""
        self.go_away()
        try:
            yield
        finally:
            self.come_back()

    def passages(self, match: str = "", fault: Kind | None = None) -> list[Passage]:
        """Return the journal's entries of an operation or path, and of a fault if one is named."""
        return [
            passage
            for passage in list(self.journal)
            if re.search(match, f"{passage.operation} {passage.path}")
            and fault in (None, passage.fault)
        ]

    def happened(self, fault: Fault) -> int:
        """Return how often a rule has struck."""
        return self._rules.happened.get(fault, 0)

    def _run(self, work: Coroutine[Any, Any, Reply]) -> Reply:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        app = web.Application(client_max_size=LARGEST_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._pass)
        # Bodies pass as they are, compressed ones included.
        self._runner = web.AppRunner(app, auto_decompress=False, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.SockSite(self._runner, _bind(self._place.getsockname()[1])).start()

    async def _stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        # Requests that are being delayed would outlive their connections.
        late = asyncio.all_tasks() - {asyncio.current_task()}
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        operation = _find_operation(request, body)
        fault = self._rules.choose(operation, request.path)
        reply = await self._answer(request, body, fault)
        status = None if reply is None else reply.status
        kind = fault.kind if fault else None
        self.journal.append(Passage(time.time(), operation, request.path, status, kind))
        return reply if reply is not None else _drop(request)

    async def _answer(
        self, request: web.Request, body: bytes, fault: Fault | None
    ) -> web.StreamResponse | None:
        """Return the answer to a request, None if the client gets none."""
        if fault and fault.kind == "refuse":
            return None
        if fault and fault.kind == "status":
            return _refusal(fault)
        if fault and fault.kind == "delay":
            await asyncio.sleep(fault.delay_seconds)
        reply = await self._forward(request, body)
        if reply is None or not fault or fault.kind == "delay":
            return reply
        if fault.kind == "cut":
            await _send_half(request, reply)
        return None

    async def _forward(self, request: web.Request, body: bytes) -> web.Response | None:
        """Ask the backend; None if it is away, which the client then sees as a broken line."""
        # A connection for each request: a kept one may end just as it is used again.
        connector = TCPConnector(force_close=True)
        session = ClientSession(
            connector=connector,
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            timeout=ClientTimeout(total=None),
        )
        headers = [(n, v) for n, v in request.headers.items() if n.lower() not in HOP_BY_HOP]
        try:
            async with (
                session,
                session.request(
                    request.method,
                    f"{self.upstream_url}{request.raw_path}",
                    headers=headers,
                    data=body or None,
                    allow_redirects=False,
                ) as answer,
            ):
                content = await answer.read()
        except (ClientError, OSError):
            return None
        reply = web.Response(status=answer.status, reason=answer.reason, body=content)
        for name in {"Content-Type"} & set(reply.headers):
            del reply.headers[name]
        for name, value in answer.headers.items():
            if name.lower() not in HOP_BY_HOP:
                reply.headers.add(name, value)
        return reply


def _bind(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound


def _find_operation(request: web.Request, body: bytes) -> str:
    if request.path.endswith("/file_stream"):
        return "file_stream"
    if request.method == "PUT":
        return "upload"
    if not request.path.endswith("/graphql"):
        return ""
    try:
        asked = json.loads(body)
    except ValueError:
        return ""
    named = _OPERATION.search(str(asked.get("query", "")))
    return str(asked.get("operationName") or (named.group(1) if named else ""))


def _refusal(fault: Fault) -> web.Response:
    wait = fault.retry_after_seconds
    return web.json_response(
        {"errors": [{"message": f"a fault of the test: {fault.status}"}]},
        status=fault.status,
        headers={} if wait is None else {"Retry-After": str(wait)},
    )


async def _send_half(request: web.Request, reply: web.Response) -> None:
    """Send the answer's head and half of its body, its length being that of the whole."""
    content = reply.body if isinstance(reply.body, bytes) else b""
    half = web.StreamResponse(status=reply.status, headers=reply.headers)
    half.content_length = max(2, len(content))
    await half.prepare(request)
    await half.write(content[: len(content) // 2] or b" ")


def _drop(request: web.Request) -> web.StreamResponse:
    """Break the connection without another byte."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
