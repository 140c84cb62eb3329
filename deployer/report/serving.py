"""The page of one sweep, read from its server while somebody looks; on this machine alone.

A link signs in once, as on the backend's page; nothing can be changed here.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import mimetypes
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from deployer.errors import ConfigError, DeployerError
from deployer.page.assets import load_assets
from deployer.page.strict_json import to_strict_json
from deployer.report.content import make_address
from deployer.report.reader import REFRESH_SECONDS, Reader

HOST = "127.0.0.1"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'; object-src 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
SIGN_OUT = '<form method="post" action="/logout"><button class="quiet">Sign out</button></form>'
LOGIN = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<title>deployer</title>
<link rel="stylesheet" href="/static/style.css">
<script type="module" src="/static/login.js"></script>
</head>
<body class="alone">
<form class="card" id="form" method="post" action="/login"><h1>deployer</h1>
<input id="key" hidden>
<p>The link that deployer report printed signs in here, once. Run it again for a new one.</p>
</form>
</body>
</html>
"""


class Site:
    """The endpoints around one sweep; the first who comes with the link's code is signed in."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.address = make_address(reader.path)
        self.code: str | None = secrets.token_urlsafe(24)
        self._token = secrets.token_urlsafe(32)

    def build(self) -> Starlette:
        """Return the application; it answers to this machine's own names alone."""
        pages, project = f"/api/pages{self.address}", self.address.rsplit("/", 2)[0]
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
        routes = [
            Route("/login", self.form),
            Route("/login", self.enter, methods=["POST"]),
            Route("/static/{name:path}", self.asset),
            Route("/{rest:path}", self.answer),
        ]
        self._answers: dict[str, Callable[[Request], Response]] = {
            self.address: self.page,
            pages: lambda _: _json(self.reader.document()),
            f"{pages}/importance": lambda _: _json(self.reader.importance()),
            f"/api/pages{project}/curves": self.curves,
            f"/api/events{self.address}": self.changes,
        }
        return Starlette(routes=routes, middleware=[hosts])

    def form(self, _: Request) -> Response:
        """Say what signs in; a script posts what stands behind the link's `#`."""
        return HTMLResponse(LOGIN, headers=HEADERS)

    async def enter(self, request: Request) -> Response:
        """Take the link's code, which is good once."""
        given = parse_qs((await request.body()).decode("utf-8", "replace")).get("link", [""])[0]
        if self.code is None or not secrets.compare_digest(given.encode(), self.code.encode()):
            return HTMLResponse(LOGIN, 401, HEADERS)
        self.code = None
        reply = RedirectResponse(self.address, 303, HEADERS)
        reply.set_cookie(_cookie(request), self._token, httponly=True, samesite="strict")
        return reply

    async def answer(self, request: Request) -> Response:
        """Answer whoever is signed in: with the page, its data, or that there is no other one."""
        if not self._knows(request):
            if request.url.path.startswith("/api/"):
                return _refuse(401, "sign in by the link first")
            return RedirectResponse("/login", 303, HEADERS)
        found = self._answers.get(request.scope["raw_path"].decode("ascii", "replace"))
        if found is None:
            return RedirectResponse(self.address, 303, HEADERS)
        try:
            return await run_in_threadpool(found, request)
        except DeployerError as error:
            return _refuse(502, error.message)

    def page(self, _: Request) -> Response:
        """Send the shell of the page, which holds nothing of a user's but the sweep's address."""
        shell = load_assets().text("page.html").replace(SIGN_OUT, "")
        only = f'<meta name="only-page" content="{html.escape(self.address)}">\n    <title>'
        shell = shell.replace("<title>", only).replace("/static/[[version]]/", "/static/")
        return HTMLResponse(shell, headers=HEADERS)

    def curves(self, request: Request) -> Response:
        """Send the curves of a metric of the runs that are asked for."""
        metric = request.query_params.get("metric", "")
        names = request.query_params.get("runs", "").split(",")
        return _json({"metric": metric, "curves": self.reader.curves(metric, names)})

    def changes(self, _: Request) -> Response:
        """Tell again and again that there may be news."""
        return StreamingResponse(_tick(), media_type="text/event-stream", headers=HEADERS)

    def asset(self, request: Request) -> Response:
        """Send a script or style, to anybody: they are the same in every deployer."""
        name = request.path_params["name"]
        content = load_assets().files.get(name)
        if content is None or name.endswith(".html"):
            return _refuse(404, f"there is no file {name}")
        return Response(content, media_type=mimetypes.guess_type(name)[0], headers=HEADERS)

    def _knows(self, request: Request) -> bool:
        given = request.cookies.get(_cookie(request), "")
        return secrets.compare_digest(given.encode(), self._token.encode())


def serve(reader: Reader, port: int, tell: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; `tell` gets the link that signs in. Raises ConfigError."""
    site = Site(reader)
    listener = _listen(port)
    tell(f"http://{HOST}:{listener.getsockname()[1]}/login#link={site.code}")
    config = uvicorn.Config(
        site.build(), log_level="error", access_log=False, timeout_graceful_shutdown=1
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        said = f"cannot listen on {HOST}:{port}: {error.strerror}"
        raise ConfigError("--port", said, "--port 0 takes a free one") from error
    listener.listen(128)
    return listener


async def _tick() -> AsyncIterator[str]:
    yield ":\n\n"
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        yield "data: look\n\n"


def _cookie(request: Request) -> str:
    """Return a name of this port's own: cookies do not tell the ports of one host apart."""
    return f"deployer-report-{request.url.port}"


def _json(document: Mapping[str, Any]) -> Response:
    return Response(to_strict_json(document), media_type="application/json", headers=HEADERS)


def _refuse(status: int, message: str) -> Response:
    return JSONResponse({"errors": [{"message": message}]}, status, HEADERS)
