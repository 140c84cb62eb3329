"""A proxy in front of a real API server that refuses, loses, cuts and answers by rules.

Clients speak plain HTTP to it; it has the certificate of the user for whom it asks.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import yaml

Kind = Literal["refuse", "lose_reply", "hang", "cut", "status"]
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}
CHUNK_BYTES = 1 << 14


@dataclass
class Fault:
    """A rule: what happens to the first `count` requests that `match` is found in.

    `match` is a regular expression on `METHOD /path?query`. `refuse` drops a request unread by the
    server; `lose_reply` and `hang` let the server act and then break the line, or say nothing more;
    `cut` ends the answer halfway; `status` answers in the server's place.
    """

    kind: Kind
    match: str
    status: int = 500
    message: str = "a fault of the test"
    reason: str = ""
    retry_after_seconds: int | None = None
    count: int | None = None
    happened: int = 0


@dataclass
class ApiProxy:
    """Serves until the `with` block ends; `kubeconfig` is for its clients."""

    upstream: Path
    folder: Path
    journal: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def __enter__(self) -> ApiProxy:
        content = yaml.safe_load(self.upstream.read_text())
        self._server = urlsplit(content["clusters"][0]["cluster"]["server"])
        self._tls = _make_context(content, self.upstream.parent)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, proxy=self))
        self._http.daemon_threads = True
        self.leaving = threading.Event()
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.kubeconfig = self.folder / "proxy.kubeconfig"
        url = f"http://127.0.0.1:{self._http.server_port}"
        self.kubeconfig.write_text(yaml.safe_dump(_point_to(content, url)))
        return self

    def __exit__(self, *_: object) -> None:
        self.leaving.set()
        self._http.shutdown()
        self._http.server_close()

    def set_faults(self, *faults: Fault) -> None:
        """Replace the rules; none lets everything pass."""
        self.faults = list(faults)

    def choose(self, request: str) -> Fault | None:
        """Return the first rule that a request falls to."""
        for fault in self.faults:
            used_up = fault.count is not None and fault.happened >= fault.count
            if not used_up and re.search(fault.match, request):
                fault.happened += 1
                return fault
        return None

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> HTTPResponse:
        """Pass a request on and return the server's answer, to be read."""
        host, port = self._server.hostname or "", self._server.port
        connection = HTTPSConnection(host, port, context=self._tls)
        connection.request(method, path, body or None, headers)
        return connection.getresponse()


class _Handler(BaseHTTPRequestHandler):
    """Serves one connection of a client: a request at a time, as the rules say."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments: Any, proxy: ApiProxy) -> None:
        self.proxy = proxy
        super().__init__(*arguments)  # serves the connection to its end

    def log_message(self, *_: Any) -> None:
        """Keep quiet: the journal has it all."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = f"{self.command} {self.path}"
        self.proxy.journal.append(request)
        fault = self.proxy.choose(request)
        if fault and fault.kind == "refuse":
            self._drop()
        elif fault and fault.kind == "status":
            self._refuse(fault)
        else:
            self._pass(body, fault)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def _pass(self, body: bytes, fault: Fault | None) -> None:
        headers = {n: v for n, v in self.headers.items() if n.lower() not in HOP_BY_HOP}
        answer = self.proxy.ask(self.command, self.path, headers, body)
        if fault and fault.kind != "cut":
            answer.read()
            if fault.kind == "hang":
                self.proxy.leaving.wait()
            self._drop()
            return
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while chunk := answer.read1(CHUNK_BYTES):
            if fault:
                chunk = chunk[: len(chunk) // 2]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.flush()
            if fault:
                self._drop()
                return
        self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, fault: Fault) -> None:
        told = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
        told |= {"message": fault.message, "reason": fault.reason, "code": str(fault.status)}
        content = json.dumps(told).encode()
        self.send_response(fault.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if fault.retry_after_seconds is not None:
            self.send_header("Retry-After", str(fault.retry_after_seconds))
        self.end_headers()
        self.wfile.write(content)

    def _drop(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.close()


def _make_context(kubeconfig: dict[str, Any], folder: Path) -> ssl.SSLContext:
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    with tempfile.TemporaryDirectory() as scratch:
        executor = _write_files(Path(scratch), folder)
        context = ssl.create_default_context(cafile=executor(cluster, "certificate-authority"))
        context.load_cert_chain(executor(user, "client-certificate"), executor(user, "client-key"))
    return context


def _write_files(scratch: Path, folder: Path) -> Callable[[dict[str, Any], str], str]:
    """Return a function that finds a file of a kubeconfig, written out if its content is inside."""

    def executor(section: dict[str, Any], name: str) -> str:
        if name in section:
            return str(folder / section[name])
        file = scratch / name
        file.write_bytes(base64.b64decode(section[f"{name}-data"]))
        return str(file)

    return executor


def _point_to(kubeconfig: dict[str, Any], url: str) -> dict[str, Any]:
    plain = {"name": "proxy", "cluster": {"server": url}}
    user = {"name": "proxy", "user": {}}
    namespace = kubeconfig["contexts"][0]["context"].get("namespace", "default")
    context = {"cluster": "proxy", "user": "proxy", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "proxy",
        "contexts": [{"name": "proxy", "context": context}],
        "clusters": [plain],
        "users": [user],
    }
