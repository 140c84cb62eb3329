"""The pages' addresses: HTML for people, the same data as JSON under /api/pages, logging in."""

from __future__ import annotations

import hashlib
import html
import mimetypes
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, quote

from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from deployer.backend.db.accounts import Caller, find_caller
from deployer.backend.db.artifact_files import find_artifact_file
from deployer.backend.db.files import find_file
from deployer.backend.refusal import Refusal, not_found
from deployer.backend.scheduling.context import Backend
from deployer.backend.web.artifacts import find_artifact_of
from deployer.backend.web.curves import CurveCache
from deployer.backend.web.sessions import SESSION_SECONDS, Sessions
from deployer.backend.web.strict_json import to_strict_json
from deployer.backend.web.views import ARTIFACT_PATH, VIEWS, Site, View, find_run_of

STATIC = Path(__file__).parent / "static"
SHELL, LOGIN, MISSING = "page.html", "login.html", "missing.html"

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'; object-src 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
WRONG_KEY = "This key is not valid here."
AGENT_KEY = "This is an agent's own key. Log in with yours."


class PageEntity(Convertor[str]):
    """The first part of a page's address: anything but the first parts of the machine's own."""

    regex = (
        r"(?!(?:api|artifactsV2|download|files|graphql|healthz|login|logout|metrics|ready|readyz|sdk|static|upload)"
        r"(?:/|$))[^/]+"
    )

    def convert(self, value: str) -> str:
        """Return the entity."""
        return value

    def to_string(self, value: str) -> str:
        """Return the entity."""
        return value


register_url_convertor("page", PageEntity())


def build_page_routes(backend: Backend) -> list[BaseRoute]:
    """Return the routes of all pages; they go after those of the protocol."""
    pages = Pages(backend)
    run_path = "/api/pages/{entity:page}/{project}/runs/{run}"
    version_path = f"/api/pages{ARTIFACT_PATH}/{{version}}"
    return [
        Route("/login", pages.login_form),
        Route("/login", pages.login, methods=["POST"]),
        Route("/logout", pages.logout, methods=["POST"]),
        Route("/static/{version}/{name}", pages.asset),
        Route(run_path + "/files/{name:path}", pages.download),
        Route(version_path + "/files/{name:path}", pages.download_artifact),
        *[Route(f"/api/pages{view.path}", partial(pages.data, view)) for view in VIEWS],
        *[Route(view.path, partial(pages.page, view)) for view in VIEWS],
    ]


class Pages:
    """The endpoints. HTML holds no user's data; the scripts fetch it from `data`."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.site = Site(backend, CurveCache(backend.store))
        self.sessions = Sessions(backend.monotonic)
        self.assets = {path.name: path.read_bytes() for path in sorted(STATIC.iterdir())}
        self.version = hashlib.sha256(b"".join(self.assets.values())).hexdigest()[:16]

    def page(self, view: View, http: HttpRequest) -> Response:
        """Send the shell of a page, after a look that there is something to show."""
        caller = self._visitor(http)
        if caller is None:
            return RedirectResponse(f"/login?next={quote(http.url.path)}", 303, HEADERS)
        try:
            with self.backend.store.snapshot() as db:
                view.find(db, caller, http.path_params)
        except Refusal as refusal:
            return self._html(MISSING, refusal.status, message=refusal.message)
        return self._html(SHELL)

    def data(self, view: View, http: HttpRequest) -> Response:
        """Send a page's data; 304 if the browser has it already."""
        body = to_strict_json(view.describe(self.site, self._caller(http), http.path_params))
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {**HEADERS, "ETag": tag}
        if http.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    def download(self, http: HttpRequest) -> Response:
        """Send a run's file to be saved: shown here, a user's HTML would act as this site."""
        caller = self._caller(http)
        with self.backend.store.snapshot() as db:
            _, run = find_run_of(db, caller, http.path_params)
            file = find_file(db, run.id, http.path_params["name"])
        return self._attachment(http, file.blob_id if file else None)

    def download_artifact(self, http: HttpRequest) -> Response:
        """Send a file of an artifact to be saved."""
        caller = self._caller(http)
        with self.backend.store.snapshot() as db:
            _, _, row = find_artifact_of(db, caller, http.path_params)
            file = find_artifact_file(db, row, http.path_params["name"])
        return self._attachment(http, file.blob_id if file else None)

    def _attachment(self, http: HttpRequest, blob_id: int | None) -> Response:
        name = http.path_params["name"]
        if blob_id is None:
            raise not_found(f"file {name}")
        return FileResponse(
            self.backend.blobs.path(blob_id),
            media_type="application/octet-stream",
            filename=Path(name).name,
            headers=HEADERS,
        )

    def login_form(self, http: HttpRequest) -> Response:
        """Ask for the key."""
        return self._login_page(http, 200, "")

    async def login(self, http: HttpRequest) -> Response:
        """Check the key and start a session, whose cookie scripts cannot read."""
        form = parse_qs((await http.body()).decode("utf-8", "replace"))
        return await run_in_threadpool(self._login, http, form.get("key", [""])[0].strip())

    def _login(self, http: HttpRequest, key: str) -> Response:
        with self.backend.store.snapshot() as db:
            caller = find_caller(db, key)
        if caller is None:
            return self._login_page(http, 401, WRONG_KEY)
        if caller.sweep_id is not None:
            return self._login_page(http, 403, AGENT_KEY)
        reply = RedirectResponse(_next_path(http), 303, HEADERS)
        reply.set_cookie(
            _cookie_name(http),
            self.sessions.begin(key),
            max_age=SESSION_SECONDS,
            secure=http.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return reply

    def logout(self, http: HttpRequest) -> Response:
        """End the session."""
        self.sessions.end(http.cookies.get(_cookie_name(http), ""))
        reply = RedirectResponse("/login", 303, HEADERS)
        reply.delete_cookie(_cookie_name(http), httponly=True, samesite="strict")
        return reply

    def asset(self, http: HttpRequest) -> Response:
        """Send a script or style; its address changes with its content."""
        name = http.path_params["name"]
        content = self.assets.get(name)
        if content is None or name.endswith(".html"):
            raise not_found(f"file {name}")
        kind = mimetypes.guess_type(name)[0]
        headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        if http.path_params["version"] != self.version:
            headers["Cache-Control"] = "no-store"
        return Response(content, media_type=kind, headers=headers)

    def _visitor(self, http: HttpRequest) -> Caller | None:
        token = http.cookies.get(_cookie_name(http), "")
        with self.backend.store.snapshot() as db:
            return self.sessions.find_caller(db, token)

    def _caller(self, http: HttpRequest) -> Caller:
        caller = self._visitor(http)
        if caller is None:
            raise Refusal(401, "log in first")
        return caller

    def _login_page(self, http: HttpRequest, status: int, error: str) -> Response:
        return self._html(LOGIN, status, error=error, next=quote(_next_path(http)))

    def _html(self, name: str, status: int = 200, **texts: str) -> Response:
        content = self.assets[name].decode()
        for mark, text in {**texts, "version": self.version}.items():
            content = content.replace(f"[[{mark}]]", html.escape(text))
        return HTMLResponse(content, status, HEADERS)


def _cookie_name(http: HttpRequest) -> str:
    """Return a name of this port's own: cookies do not tell the ports of one host apart."""
    return f"deployer-{http.url.port or http.url.scheme}"


def _next_path(http: HttpRequest) -> str:
    """Return where to go after the log-in: a path of this site, never another host."""
    path = http.query_params.get("next", "/")
    foreign = not path.startswith("/") or path.startswith("//") or "\\" in path
    return "/" if foreign or any(ord(letter) < 32 for letter in path) else path
