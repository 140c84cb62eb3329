"""Signing in and out: with the key, or with a single-use link that `deployer` prints.

A link has its code after a `#`, which browsers never send, so that it is not in logs, Referer
headers or proxies. A script of the login page removes it from the address and posts it.
"""

from __future__ import annotations

import html
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from deployer.backend.db.accounts import (
    SESSION_SECONDS,
    Caller,
    begin_session,
    caller_of_session,
    end_session,
    find_caller,
    hash_key,
)
from deployer.backend.request import Refusal, find_key
from deployer.backend.scheduling.context import Backend
from deployer.page.single_file import Assets

LINK_SECONDS = 15 * 60
MOST_LINKS = 1000
MOST_BYTES = 64 * 1024
LOGIN = "login.html"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'; object-src 'none'",
    # With `no-referrer`, browsers send our own forms with Origin null, like another site's.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
WRONG_KEY = "This key is not valid here."
AGENT_KEY = "This is an agent's own key. Log in with yours."
USED_LINK = "This link was already used or has expired. deployer backend open prints a new one."
ENDED = "Your sign-in has ended. deployer backend open prints a link that signs in again."


@dataclass(frozen=True)
class Link:
    """A code's key, as a hash, and its expiry by the monotonic clock."""

    key_hash: str
    ends_at: float


class Links:
    """The codes of one server process; a restart invalidates all of them."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._by_code: dict[str, Link] = {}

    def make(self, key: str) -> str:
        """Return a single-use code for a verified key, valid for LINK_SECONDS."""
        now = self._monotonic()
        code = secrets.token_urlsafe(24)
        with self._lock:
            fresh = [(c, s) for c, s in self._by_code.items() if s.ends_at > now]
            self._by_code = dict(fresh[1 - MOST_LINKS :])
            self._by_code[code] = Link(hash_key(key), now + LINK_SECONDS)
        return code

    def take(self, code: str) -> str | None:
        """Use up a code and return its key's hash; None if the code is invalid or expired."""
        with self._lock:
            link = self._by_code.pop(code, None)
        return link.key_hash if link and link.ends_at > self._monotonic() else None


async def read_form(http: HttpRequest) -> bytes:
    """Return the body; refuse one that is too big with 413, before it is complete."""
    received = bytearray()
    async for block in http.stream():
        received += block
        if len(received) > MOST_BYTES:
            raise Refusal(413, f"the body is bigger than {MOST_BYTES} bytes")
    return bytes(received)


class SignIn:
    """The endpoints for sessions; scripts cannot read the session's cookie."""

    def __init__(self, backend: Backend, assets: Assets) -> None:
        self.backend = backend
        self.assets = assets
        self.links = Links(backend.monotonic)

    def form(self, http: HttpRequest) -> Response:
        """Send the login form, with a note if the browser's session has ended."""
        known = _cookie_name(http) in http.cookies and self.visitor(http) is None
        return self._page(http, 200, ENDED if known else "")

    async def enter(self, http: HttpRequest) -> Response:
        """Check a key or a link's code, and start a session."""
        form = parse_qs((await read_form(http)).decode("utf-8", "replace"))
        key, link = (form.get(name, [""])[0].strip() for name in ("key", "link"))
        return await run_in_threadpool(self._enter, http, key, link)

    def _enter(self, http: HttpRequest, key: str, link: str) -> Response:
        if link:
            # Redirect to the link's page; a used link still works for a user who is signed in.
            key_hash = self.links.take(link)
            if key_hash:
                return self._begin(http, key_hash)
            if self.visitor(http):
                return RedirectResponse(_next_path(http), 303, HEADERS)
            return self._page(http, 401, USED_LINK)
        with self.backend.store.snapshot() as db:
            caller = find_caller(db, key)
        if caller is None:
            return self._page(http, 401, WRONG_KEY)
        if caller.sweep_id is not None:
            return self._page(http, 403, AGENT_KEY)
        return self._begin(http, hash_key(key))

    def _begin(self, http: HttpRequest, key_hash: str) -> Response:
        with self.backend.store.transaction() as db:
            token = begin_session(db, key_hash, self.backend.now())
        reply = RedirectResponse(_next_path(http), 303, HEADERS)
        reply.set_cookie(
            _cookie_name(http),
            token,
            max_age=SESSION_SECONDS,
            secure=http.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return reply

    def make_link(self, http: HttpRequest) -> Response:
        """Answer a request with a user's key with a single-use sign-in code."""
        key = find_key(http.headers)
        with self.backend.store.snapshot() as db:
            caller = find_caller(db, key)
        if caller is None:
            raise Refusal(401, "the API key is not valid for this server")
        if caller.sweep_id is not None:
            raise Refusal(403, "an agent's key cannot sign in")
        code = self.links.make(key)
        return JSONResponse({"code": code, "seconds": LINK_SECONDS}, headers=HEADERS)

    def leave(self, http: HttpRequest) -> Response:
        with self.backend.store.transaction() as db:
            end_session(db, http.cookies.get(_cookie_name(http), ""))
        reply = RedirectResponse("/login", 303, HEADERS)
        reply.delete_cookie(_cookie_name(http), httponly=True, samesite="strict")
        return reply

    def visitor(self, http: HttpRequest) -> Caller | None:
        token = http.cookies.get(_cookie_name(http), "")
        with self.backend.store.snapshot() as db:
            return caller_of_session(db, token, self.backend.now()) if token else None

    def caller(self, http: HttpRequest) -> Caller:
        """Return the signed-in caller; refuse with 401 if there is none."""
        caller = self.visitor(http)
        if caller is None:
            raise Refusal(401, "log in first")
        return caller

    def changer(self, http: HttpRequest) -> Caller:
        """Return the signed-in caller; refuse requests from pages of other sites with 403."""
        host = http.headers.get("host", "")
        if http.headers.get("origin", "").partition("://")[2] != host or not host:
            raise Refusal(403, "this request did not come from a page of this site")
        return self.caller(http)

    def html(self, name: str, status: int = 200, **texts: str) -> Response:
        """Send an HTML file with its placeholders replaced by escaped text."""
        content = self.assets.text(name)
        for mark, text in {**texts, "version": self.assets.version}.items():
            content = content.replace(f"[[{mark}]]", html.escape(text))
        return HTMLResponse(content, status, HEADERS)

    def _page(self, http: HttpRequest, status: int, error: str) -> Response:
        return self.html(LOGIN, status, error=error, next=quote(_next_path(http)))


def _cookie_name(http: HttpRequest) -> str:
    """Return a name with the port, since all ports of a host share their cookies."""
    return f"deployer-{http.url.port or http.url.scheme}"


def _next_path(http: HttpRequest) -> str:
    """Return the redirect after the login: a path of this site, never another host."""
    path = http.query_params.get("next", "/")
    foreign = not path.startswith("/") or path.startswith("//") or "\\" in path
    return "/" if foreign or any(ord(letter) < 32 for letter in path) else path
