"""What operators watch: whether all works (`/readyz`), and figures for Prometheus (`/metrics`).

Neither asks for a key: they hold counts and seconds, no name of a user, project or run.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployer.backend.scheduling.context import Backend
from deployer.backend.server.health import disk_is_full

# The first part of an address, which says what a request is about; anything else is `other`.
KINDS = ("graphql", "files", "upload", "download", "artifactsV2", "api")
# Answers that last as long as somebody looks at a page.
LISTENING = "/api/events/"
SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


class Monitor:
    """Counts what is asked, and looks when it is asked for the figures."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._registry = CollectorRegistry()
        self._registry.register(_State(backend))
        self.seconds = Histogram(
            "deployer_backend_request_seconds",
            "Time to answer a request, by the first part of its address and the kind of answer.",
            ["kind", "status"],
            registry=self._registry,
            buckets=SECONDS,
        )

    def ready(self, _: HttpRequest) -> Response:
        """Say what works, a line each; 503 if something does not."""
        found = self._examine()
        text = "".join(f"{part}: {state}\n" for part, state in found.items())
        works = all(state == "ok" for state in found.values())
        return PlainTextResponse(text, 200 if works else 503)

    def figures(self, _: HttpRequest) -> Response:
        """Return all figures in the text format of Prometheus."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    def _examine(self) -> Mapping[str, str]:
        store = self._backend.store
        full = store.full or disk_is_full(self._backend.folder)
        try:
            with store.snapshot() as db:
                db.execute("SELECT 1 FROM users LIMIT 1").fetchone()
        except Exception as error:
            database = str(error) or type(error).__name__
        else:
            database = "ok" if store.writing else "its writer has ended"
        search = "ok" if self._backend.search.alive else "its process was killed"
        return {"database": database, "disk": "full" if full else "ok", "search": search}


class Timing:
    """Times every request that is not to last, to the last byte of its answer."""

    def __init__(self, app: ASGIApp, monitor: Monitor) -> None:
        self._app, self._monitor = app, monitor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and note what it took."""
        if scope["type"] != "http" or scope["path"].startswith(LISTENING):
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            first = scope["path"].strip("/").partition("/")[0]
            kind = first if first in KINDS else "other"
            seconds = self._monitor.seconds.labels(kind, f"{status // 100}xx")
            seconds.observe(time.perf_counter() - begun)


class _State(Collector):
    """Gauges of what there is now."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def collect(self) -> Iterator[GaugeMetricFamily]:
        backend = self._backend
        with backend.store.snapshot() as db:
            counted = db.execute("SELECT state, COUNT(*) FROM runs GROUP BY state").fetchall()
        yield _gauge("runs", "Runs, by their state.", dict(counted))
        patience = backend.patience.silence_seconds
        present = backend.presence.count("agent", patience)
        yield _gauge("agents", f"Agents heard of in the last {patience:g} s.", present)
        waiting = backend.store.waiting
        yield _gauge("queue", "Changes that wait for the writer.", waiting)
        disk = shutil.disk_usage(backend.folder)
        yield _gauge("disk_free_bytes", "Room where the data folder is.", disk.free)
        size = sum(map(_size, (backend.store.path, Path(f"{backend.store.path}-wal"))))
        yield _gauge("database_bytes", "The database and its log.", size)


def _gauge(name: str, text: str, value: float | Mapping[str, float]) -> GaugeMetricFamily:
    by_state = isinstance(value, Mapping)
    made = GaugeMetricFamily(f"deployer_backend_{name}", text, labels=["state"] * by_state)
    for state, one in value.items() if isinstance(value, Mapping) else (("", value),):
        made.add_metric([state] * by_state, one)
    return made


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
