"""An API server that answers with anything but what Kubernetes would, over TLS."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.gke.credentials import make_authority

VERSION = {"major": "1", "minor": "34", "gitVersion": "v1.34.1"}


@dataclass(frozen=True)
class OddKubernetes:
    """Where it is, and whose certificate it shows."""

    address: str
    ca: bytes


@contextmanager
def serve_odd_kubernetes(answers: Mapping[str, object]) -> Iterator[OddKubernetes]:
    """Serve these answers by their paths, and nothing elsewhere."""
    known = {"/version": VERSION, **answers}

    class Request(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path in known
            content = json.dumps(known.get(self.path, {})).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

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
