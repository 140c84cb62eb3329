"""Checks of every request: known hosts, same origin, a limit for each key, no stalled clients.

A browser sends a page's requests to any address that its host name resolves to (DNS rebinding). So
a local server accepts only local host names, and pages of other sites cannot change anything.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from deployer.backend.request import find_asker

READING = ("GET", "HEAD", "OPTIONS")
PORTS = {"http": 80, "https": 443}
AGAIN_SECONDS = 1
MOST_HEADERS = 200
MOST_HEADER_BYTES = 64 * 1024
# Headers of every answer that does not set them itself.
DEFAULT_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
NO_MORE = b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TIMED_OUT = b"HTTP/1.1 408 Request Timeout" + NO_MORE
TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large" + NO_MORE


@dataclass(frozen=True)
class Rules:
    """Access rules: `local` accepts only this machine, `public_url` is the address of a proxy.

    `most_requests` is the limit of concurrent requests per key, enough for a thousand agents that
    share a key and each send a heartbeat, a stream and a file.
    """

    local: bool = False
    public_url: str = ""
    most_requests: int = 4000


class Gate:
    """Refuses requests that are not for this server, before it reads their bodies."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules
        self._public = urlsplit(rules.public_url) if rules.public_url else None
        self._in_flight: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        answer = _guarded(send)
        host = headers.get("host", "")
        if len(headers) > MOST_HEADERS or _size(headers) > MOST_HEADER_BYTES:
            said = f"the request has more than {MOST_HEADERS} headers or {MOST_HEADER_BYTES} bytes"
            await _refuse(431, said, scope, receive, answer)
            return
        if len(headers.getlist("host")) > 1:
            await _refuse(400, "the request names more than one host", scope, receive, answer)
            return
        if self._public and _is_at(host, self._public):
            scope["scheme"] = self._public.scheme
        elif self._rules.local and not is_local(host):
            await _refuse(421, f"this server is not {host}", scope, receive, answer)
            return
        if scope["method"] not in READING and _is_foreign(headers.get("origin"), host):
            await _refuse(
                403, "this request came from a page of another site", scope, receive, answer
            )
            return
        await self._take(find_asker(headers), scope, receive, answer)

    async def _take(self, asker: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request unless its key has reached its limit; there is none without a key."""
        if not asker:
            with suppress(ClientDisconnect):
                await self._app(scope, receive, send)
            return
        if self._in_flight[asker] >= self._rules.most_requests:
            more = {"Retry-After": str(AGAIN_SECONDS)}
            said = f"{self._rules.most_requests} requests with this key are already in progress"
            await _refuse(429, said, scope, receive, send, more)
            return
        self._in_flight[asker] += 1
        try:
            with suppress(ClientDisconnect):  # a disconnect is not our error
                await self._app(scope, receive, send)
        finally:
            self._in_flight[asker] -= 1
            if not self._in_flight[asker]:
                del self._in_flight[asker]


def _size(headers: Headers) -> int:
    return sum(len(name) + len(value) for name, value in headers.raw)


async def _refuse(
    status: int,
    said: str,
    scope: Scope,
    receive: Receive,
    send: Send,
    headers: Mapping[str, str] | None = None,
) -> None:
    body = {"errors": [{"message": said}]}
    await JSONResponse(body, status_code=status, headers=headers)(scope, receive, send)


def _guarded(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            _add_headers(message)
        await send(message)

    return guarded


def _add_headers(message: MutableMapping[str, Any]) -> None:
    message.setdefault("headers", [])
    headers = MutableHeaders(scope=message)
    for name, value in DEFAULT_HEADERS.items():
        headers.setdefault(name, value)


def is_local(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return (
            name == "localhost"
            or name.endswith(".localhost")
            or ipaddress.ip_address(name).is_loopback
        )
    except ValueError:
        return False


def _is_at(host: str, public: SplitResult) -> bool:
    try:
        asked = urlsplit(f"{public.scheme}://{host}")
        ports = [one.port or PORTS.get(one.scheme) for one in (asked, public)]
    except ValueError:
        return False
    return asked.hostname == public.hostname and ports[0] == ports[1]


def _is_foreign(origin: str | None, host: str) -> bool:
    """Return True if a browser's request is from another site; programs send no Origin."""
    return origin is not None and origin.partition("://")[2].lower() != host.lower()


# Close connections of clients that send or receive too slowly, so that none stays open forever. A
# reverse proxy may do the same; this works without one.


@dataclass(frozen=True)
class ClientPace:
    """Speed limits for clients, generous since a loaded machine is slower than any network.

    A client must send a request's whole header within `header_seconds`, and at least `least_bytes`
    of its body in every `body_seconds`. It must read something of the answer within
    `taking_seconds`.
    """

    header_seconds: float = 30.0
    body_seconds: float = 30.0
    least_bytes: int = 16 * 1024
    taking_seconds: float = 120.0

    @property
    def look_seconds(self) -> float:
        return min(self.header_seconds, self.body_seconds, self.taking_seconds) / 4


class PacedProtocol(H11Protocol):
    """uvicorn's connection with periodic checks of the client's speed."""

    pace = ClientPace()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._header_since: float | None = self.loop.time()
        self._header_bytes = 0
        self._body_since: float | None = None  # start of the interval of `_body_bytes`
        self._body_bytes = 0
        self._stuck_since: float | None = None
        self._next_look = self.loop.call_later(self.pace.look_seconds, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_look.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Record when a header begins, even with blank lines; close if it is too long."""
        if self._body_since is None and self._header_since is None:
            self._header_since, self._header_bytes = self.loop.time(), 0
        if self._header_since is not None:
            self._header_bytes += len(data)
        self._body_bytes += len(data)
        super().data_received(data)
        too_long = self._header_since is not None and self._header_bytes > MOST_HEADER_BYTES
        if too_long and not self.transport.is_closing():
            self.transport.write(TOO_LONG)
            self.transport.close()

    def handle_events(self) -> None:
        """Track whether the client sends a header or a body; uvicorn closes idle connections."""
        super().handle_events()
        state = self.conn.their_state
        if state is h11.SEND_BODY and self._body_since is None:
            self._header_since, self._body_since, self._body_bytes = None, self.loop.time(), 0
        elif state is not h11.SEND_BODY:
            self._body_since = None
            if state is not h11.IDLE or not self.conn.trailing_data[0]:
                self._header_since = None

    def pause_writing(self) -> None:
        """Record when the client stopped reading."""
        self._stuck_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Record that the client reads again."""
        self._stuck_since = None
        super().resume_writing()

    def _look(self) -> None:
        now = self.loop.time()
        if self._stuck_since is not None and now - self._stuck_since > self.pace.taking_seconds:
            self.transport.abort()
        elif self._sends_too_slowly(now):
            self.transport.write(TIMED_OUT)
            self.transport.close()
        else:
            self._next_look = self.loop.call_later(self.pace.look_seconds, self._look)

    def _sends_too_slowly(self, now: float) -> bool:
        if self._header_since is not None:
            return now - self._header_since > self.pace.header_seconds
        if self._body_since is None or now - self._body_since < self.pace.body_seconds:
            return False
        # If the server paused reading because it is busy, the client is not at fault.
        slow = self._body_bytes < self.pace.least_bytes and not self.flow.read_paused
        self._body_since, self._body_bytes = now, 0
        return slow


def build_protocol(pace: ClientPace) -> type[PacedProtocol]:
    class Paced(PacedProtocol):
        pass

    Paced.pace = pace
    return Paced
