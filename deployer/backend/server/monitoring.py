"""Monitoring: health (`/healthz`), readiness (`/readyz`), metrics (`/metrics`).

None needs a key: they contain counts and seconds, but no names of users, projects or runs.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployer.backend.scheduling.context import Backend
from deployer.backend.server.daemon import Health, disk_is_full

# The first part of a request's path; any other counts as `other`.
KINDS = ("graphql", "files", "upload", "download", "artifactsV2", "api")
# Responses that last as long as a page is open.
LISTENING = "/api/events/"
SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


class Monitor(Collector):
    """Times requests; reads all other metrics on demand."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self.seconds = Histogram(
            "deployer_backend_request_seconds",
            "Time to answer a request, by the first part of its path and the kind of response.",
            ["kind", "status"],
            registry=self._registry,
            buckets=SECONDS,
        )

    async def health(self, _: HttpRequest) -> Response:
        """Answer at once, without a thread; report a full disk."""
        return PlainTextResponse(Health.DISK_FULL if self._disk_is_full() else "ok")

    def _disk_is_full(self) -> bool:
        return self._backend.store.full or disk_is_full(self._backend.folder)

    def ready(self, _: HttpRequest) -> Response:
        """Answer with a line for each part of the backend; 503 if one does not work."""
        store = self._backend.store
        try:
            with store.snapshot() as db:
                db.execute("SELECT 1 FROM users LIMIT 1").fetchone()
        except Exception as error:
            database = str(error) or type(error).__name__
        else:
            database = "ok" if store.writing else "its writer has stopped"
        search = "ok" if self._backend.search.alive else "its process was killed"
        disk = "full" if self._disk_is_full() else "ok"
        found = {"database": database, "disk": disk, "search": search}
        text = "".join(f"{part}: {state}\n" for part, state in found.items())
        works = all(state == "ok" for state in found.values())
        return PlainTextResponse(text, 200 if works else 503)

    def figures(self, _: HttpRequest) -> Response:
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        backend = self._backend
        runs = GaugeMetricFamily("deployer_backend_runs", "Runs, by state.", labels=["state"])
        with backend.store.snapshot() as db:
            for state, count in db.execute("SELECT state, COUNT(*) FROM runs GROUP BY state"):
                runs.add_metric([state], count)
        yield runs
        patience = backend.patience.silence_seconds
        present = backend.presence.count("agent", patience)
        disk = shutil.disk_usage(backend.folder)
        log = Path(f"{backend.store.path}-wal")
        size = backend.store.path.stat().st_size + (log.stat().st_size if log.exists() else 0)
        for name, text, value in (
            ("agents", f"Agents with a heartbeat in the last {patience:g} s.", present),
            ("queue", "Changes waiting for the writer.", backend.store.waiting),
            ("disk_free_bytes", "Free space on the disk of the data folder.", disk.free),
            ("database_bytes", "Size of the database and its log.", size),
        ):
            yield GaugeMetricFamily(f"deployer_backend_{name}", text, value)


class Timing:
    """Times every request to the last byte of its answer, except event streams."""

    def __init__(self, app: ASGIApp, monitor: Monitor) -> None:
        self._app, self._monitor = app, monitor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
