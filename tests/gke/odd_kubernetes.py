"""An API server that answers with anything but what Kubernetes would, over TLS."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.gke.credentials import make_authority

API = {"kind": "Any", "apiVersion": "v1"}
BATCH_VERSION = {"groupVersion": "batch/v1", "version": "v1"}
BATCH = {"name": "batch", "versions": [BATCH_VERSION], "preferredVersion": BATCH_VERSION}
VERSION = {"major": "1", "minor": "34", "gitVersion": "v1.34.1"}


@dataclass(frozen=True)
class OddKubernetes:
    """Where it is, and whose certificate it shows."""

    address: str
    ca: bytes


def list_foreign(**objects: Mapping[str, object]) -> dict[str, object]:
    """Return the answers of a Kubernetes in which others have these, by their kind's plural."""
    kinds = {"v1": {"pods": "Pod", "persistentvolumeclaims": "PersistentVolumeClaim"}}
    kinds["v1"]["services"], kinds["batch/v1"] = "Service", {"jobs": "Job"}
    answers: dict[str, object] = {
        "/api": {**API, "versions": ["v1"]},
        "/apis": {**API, "groups": [BATCH]},
    }
    for version, names in kinds.items():
        base = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        answers[base] = {
            **API,
            "groupVersion": version,
            "resources": [
                {"name": name, "kind": kind, "namespaced": True, "verbs": ["list"]}
                for name, kind in names.items()
            ],
        }
        for name in names:
            items = [objects[name]] if name in objects else []
            answers[f"{base}/{name}"] = {**API, "items": items}
    return answers


@contextmanager
def serve_odd_kubernetes(
    answers: Mapping[str, object], ahead_seconds: float = 0.0
) -> Iterator[OddKubernetes]:
    """Serve these answers by their paths, and nothing elsewhere; its clock may be ahead."""
    known = {"/version": VERSION, **answers}

    class Request(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            found = path in known
            # What it lists has no labels of ours.
            answer = {**API, "items": []} if "labelSelector" in query else known.get(path, {})
            content = json.dumps(answer).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string((timestamp or time.time()) + ahead_seconds)

        def log_message(self, *_: Any) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority = make_authority()
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield OddKubernetes(f"localhost:{server.server_address[1]}", authority.cert_pem.bytes())
    finally:
        server.shutdown()
        server.server_close()
