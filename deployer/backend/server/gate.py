"""What holds for every request and every answer: known hosts, own pages, a share for each key.

A browser sends a page's requests to whatever its name leads to. So a server of this machine answers
to this machine's names alone, and nothing is changed for a page of another site.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployer.backend.threads import find_asker

READING = ("GET", "HEAD", "OPTIONS")
PORTS = {"http": 80, "https": 443}
AGAIN_SECONDS = 1
MOST_HEADERS = 200
MOST_HEADER_BYTES = 64 * 1024
# What is said with every answer that does not say something else.
DEFAULT_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Rules:
    """Who may ask: `local` for this machine alone, `public_url` where a proxy serves us.

    `most_requests` of one key are answered at a time: a thousand agents that have one key among
    them send a heartbeat, a stream and a file each.
    """

    local: bool = False
    public_url: str = ""
    most_requests: int = 4000


class Gate:
    """Refuses what is not meant for this server, before anything is read."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules
        self._public = urlsplit(rules.public_url) if rules.public_url else None
        self._in_flight: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
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
            await _refuse(403, "this was asked by a page of another site", scope, receive, answer)
            return
        await self._take(find_asker(headers), scope, receive, answer)

    async def _take(self, asker: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on unless its key has its share already; without a key there is none."""
        if not asker:
            with suppress(ClientDisconnect):
                await self._app(scope, receive, send)
            return
        if self._in_flight[asker] >= self._rules.most_requests:
            more = {"Retry-After": str(AGAIN_SECONDS)}
            said = f"{self._rules.most_requests} requests of this key are being answered"
            await _refuse(429, said, scope, receive, send, more)
            return
        self._in_flight[asker] += 1
        try:
            with suppress(ClientDisconnect):  # whoever leaves is no error of ours
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
    """Return what sends an answer with the headers that keep a browser from misusing it."""

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
    """Tell whether a name, with or without a port, is one of this machine alone."""
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
    """Tell whether a browser says that another site's page asks; programs say nothing."""
    return origin is not None and origin.partition("://")[2].lower() != host.lower()
