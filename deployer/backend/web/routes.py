"""The pages' routes: HTML, documents under /api/pages, server-sent events, sign-in."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from deployer.backend.db.files import File
from deployer.backend.db.lines import read_rows
from deployer.backend.db.rows import Connection, find
from deployer.backend.db.runs import RunRow
from deployer.backend.request import Refusal, answer_in_thread, not_found, parse_object
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.sweep_control import change_sweep
from deployer.backend.web.results import ACTIONS, STATES
from deployer.backend.web.sign_in import HEADERS, SignIn, read_form
from deployer.backend.web.views import (
    ARTIFACT_PATH,
    RUN_PATH,
    SWEEP_PATH,
    VIEWS,
    PageView,
    find_artifact_of,
    find_place,
    find_run_of,
    find_sweep_of,
    open_site,
    show_importance,
)
from deployer.page.curves import write_history
from deployer.page.single_file import load_assets
from deployer.page.strict_json import to_strict_json

LOOK_SECONDS = 1.0
PULSE_SECONDS = 15.0  # keep-alive comments: proxies keep the connection, and a lost one is detected
NAP_SECONDS = 0.25  # how soon a listener notices that the server is stopping
SHELL, MISSING = "page.html", "missing.html"
MOST_CURVES = 200
# Files shown inline. No SVG, which can contain scripts.
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")
# HTML that a run logged is shown in a frame. It runs no scripts, sends no requests, and has an
# opaque origin, even if its address is opened directly.
IN_A_FRAME = {
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline';"
    " img-src data:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
}


# A listener uses no thread while it waits. It ends with its session, and when the server stops.


async def list_changes(
    backend: Backend, look: Callable[[], Awaitable[object]]
) -> AsyncIterator[bytes]:
    """Yield an event whenever the result of `look` changes; end when it raises Refusal."""
    seen, quiet = "", 0.0
    yield b"retry: 2000\n\n"
    while not backend.ending.is_set():
        try:
            now = hashlib.sha256(repr(await look()).encode()).hexdigest()[:16]
        except Refusal:
            return
        quiet += LOOK_SECONDS
        if now != seen:
            yield f"data: {now}\n\n".encode()
            seen, quiet = now, 0.0
        elif quiet >= PULSE_SECONDS:
            yield b": still here\n\n"
            quiet = 0.0
        await _rest(backend)


async def _rest(backend: Backend) -> None:
    waited = 0.0
    while waited < LOOK_SECONDS and not backend.ending.is_set():
        await asyncio.sleep(NAP_SECONDS)
        waited += NAP_SECONDS


class PageEntity(Convertor[str]):
    """The first part of a page's path: anything except the reserved first parts."""

    regex = (
        r"(?!(?:api|artifactsV2|download|files|graphql|healthz|login|logout|metrics|ready|readyz|sdk|static|upload)"
        r"(?:/|$))[^/]+"
    )

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("page", PageEntity())


def build_page_routes(backend: Backend) -> list[BaseRoute]:
    """Return the routes of all pages; add them after those of W&B's protocol."""
    pages = Pages(backend)
    sign_in = pages.sign_in
    run_path = f"/api/pages{RUN_PATH}"
    sweep_path = f"/api/pages{SWEEP_PATH}"
    version_path = f"/api/pages{ARTIFACT_PATH}/{{version}}"
    return [
        Route("/login", sign_in.form),
        Route("/login", sign_in.enter, methods=["POST"]),
        Route("/login/link", sign_in.make_link, methods=["POST"]),
        Route("/logout", sign_in.leave, methods=["POST"]),
        Route("/static/{version}/{name:path}", pages.asset),
        Route(run_path + "/files/{name:path}", pages.download),
        _slow_route(run_path + "/history", pages.download_history),
        Route(version_path + "/files/{name:path}", pages.download_artifact),
        Route(sweep_path + "/state", pages.set_state, methods=["POST"]),
        _slow_route(sweep_path + "/importance", pages.importance),
        _slow_route("/api/pages/{entity:page}/{project}/curves", pages.curves),
        *[_slow_route(f"/api/pages{view.path}", partial(pages.data, view)) for view in VIEWS],
        *[Route(f"/api/events{view.path}", partial(pages.changes, view)) for view in VIEWS],
        *[Route(view.path, partial(pages.page, view)) for view in VIEWS],
    ]


def _slow_route(path: str, answer: Callable[[HttpRequest], Response]) -> Route:
    async def endpoint(http: HttpRequest) -> Response:
        return await answer_in_thread(http, answer, http)

    return Route(path, endpoint)


class Pages:
    """The endpoints. HTML holds no user's data; the scripts fetch it from `data`."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.site = open_site(backend)
        self.assets = load_assets()
        self.sign_in = SignIn(backend, self.assets)

    def page(self, view: PageView, http: HttpRequest) -> Response:
        """Send the HTML shell of a page, or an error page if its object does not exist."""
        caller = self.sign_in.visitor(http)
        if caller is None:
            asked = f"{http.url.path}?{http.url.query}" if http.url.query else http.url.path
            return RedirectResponse(f"/login?next={quote(asked)}", 303, HEADERS)
        try:
            with self.backend.store.snapshot() as db:
                view.find(db, caller, http.path_params)
        except Refusal as refusal:
            return self.sign_in.html(MISSING, refusal.status, message=refusal.message)
        return self.sign_in.html(SHELL)

    def data(self, view: PageView, http: HttpRequest) -> Response:
        """Send a page's data; 304 if the browser's copy is current."""
        return _json(http, view.describe(self.site, self.sign_in.caller(http), _place(http)))

    async def changes(self, view: PageView, http: HttpRequest) -> Response:
        """Send a server-sent event whenever a page's data changes."""
        look = partial(answer_in_thread, http, self._look, view, http)
        await look()
        headers = {**HEADERS, "X-Accel-Buffering": "no"}
        stream = list_changes(self.backend, look)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    def _look(self, view: PageView, http: HttpRequest) -> object:
        caller = self.sign_in.caller(http)
        with self.backend.store.snapshot() as db:
            return view.look(db, view.find(db, caller, http.path_params))

    def curves(self, http: HttpRequest) -> Response:
        caller, metric = self.sign_in.caller(http), http.query_params.get("metric", "")
        names = list(dict.fromkeys(http.query_params.get("runs", "").split(",")))[:MOST_CURVES]
        with self.backend.store.snapshot() as db:
            project = find_place(db, caller, http.path_params)
            runs = [
                run for name in names if (run := find(db, RunRow, project_id=project.id, name=name))
            ]
            curves = [self.site.curves.curve(run, metric) for run in runs]
        return _json(http, {"metric": metric, "curves": [c for c in curves if c["steps"]]})

    def importance(self, http: HttpRequest) -> Response:
        """Send the importance of a sweep's parameters for its metric."""
        return _json(http, show_importance(self.site, self.sign_in.caller(http), _place(http)))

    async def set_state(self, http: HttpRequest) -> Response:
        """Pause, resume, stop or cancel a sweep, by its owner's action on the page."""
        caller = await run_in_threadpool(self.sign_in.changer, http)
        if http.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise Refusal(415, "the body is not JSON")
        try:
            action = parse_object((await read_form(http)).decode(), "the body")["action"]
        except (ValueError, KeyError) as error:
            raise Refusal(400, "the request body has no `action`") from error

        def change(db: Connection) -> str:
            _, sweep = find_sweep_of(db, caller, http.path_params)
            if action not in ACTIONS.get(sweep.state, ()):
                raise Refusal(400, f"sweep {sweep.name} is {sweep.state}: it cannot {action}")
            return change_sweep(self.backend, db, sweep, state=STATES[action]).state

        state = await asyncio.wrap_future(self.backend.store.submit(change))
        return _json(http, {"state": state})

    def download(self, http: HttpRequest) -> Response:
        """Send a run's file as a download: inline, a user's HTML would run as this site."""
        caller = self.sign_in.caller(http)
        with self.backend.store.snapshot() as db:
            _, run = find_run_of(db, caller, http.path_params)
            file = find(db, File, run_id=run.id, name=http.path_params["name"])
        return self._send(http, file.blob_id if file else None)

    def download_history(self, http: HttpRequest) -> Response:
        """Send all numbers that a run has logged, as a CSV download."""
        caller = self.sign_in.caller(http)
        with self.backend.store.snapshot() as db:
            _, run = find_run_of(db, caller, http.path_params)
            rows = read_rows(db, run.id)
        headers = {**HEADERS, "Content-Disposition": "attachment"}
        return Response(write_history(rows), media_type="text/csv", headers=headers)

    def download_artifact(self, http: HttpRequest) -> Response:
        caller = self.sign_in.caller(http)
        with self.backend.store.snapshot() as db:
            _, _, row = find_artifact_of(db, caller, http.path_params)
            file = find(db, File, artifact_id=row.id, manifest=0, name=http.path_params["name"])
        return self._send(http, file.blob_id if file else None)

    def _send(self, http: HttpRequest, blob_id: int | None) -> Response:
        name = Path(http.path_params["name"])
        if blob_id is None:
            raise not_found(f"file {name}")
        kind, wanted = name.suffix.lower(), http.query_params.get("as")
        framed = wanted == "html" and kind == ".html"
        shown = framed or (wanted == "image" and kind in IMAGES)
        return FileResponse(
            self.backend.blobs.path(blob_id),
            media_type=_media_type(name) if shown else "application/octet-stream",
            filename=name.name,
            headers={**HEADERS, **IN_A_FRAME} if framed else HEADERS,
            content_disposition_type="inline" if shown else "attachment",
        )

    def asset(self, http: HttpRequest) -> Response:
        """Send a script or style; its address changes with its content."""
        name = http.path_params["name"]
        content = self.assets.files.get(name)
        if content is None or name.endswith(".html"):
            raise not_found(f"file {name}")
        headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        if http.path_params["version"] != self.assets.version:
            headers["Cache-Control"] = "no-store"
        return Response(content, media_type=_media_type(Path(name)), headers=headers)


def _json(http: HttpRequest, document: Mapping[str, Any]) -> Response:
    body = to_strict_json(document)
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {**HEADERS, "ETag": tag}
    if http.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def _place(http: HttpRequest) -> dict[str, str]:
    return {**http.query_params, **http.path_params}


def _media_type(name: Path) -> str | None:
    return mimetypes.guess_type(name.name)[0]
