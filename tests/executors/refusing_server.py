"""An API server of a namespace that refuses to make objects, with the sentences of a real one."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from deployer.kube.client import Kube, open_kube

NAMESPACE = "ns"


@contextmanager
def serve_refusals(
    folder: Path,
    refusals: Mapping[str, str],
    there: Collection[str] = (),
    hidden: Collection[str] = (),
) -> Iterator[Kube]:
    """Yield a client of a server that takes every dry run, but refuses some kinds by their plural.

    `there` and `hidden` are the ends of paths: what is there, and what may not be read.
    """

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path.endswith(tuple(hidden)):
                self._answer(403, {"message": f"{path} is forbidden", "reason": "Forbidden"})
            elif path == "/version":
                self._answer(200, {"major": "1", "minor": "30"})
            elif path.endswith(tuple(there)):
                self._answer(200, {"metadata": {"name": path.rpartition("/")[2]}})
            elif path.rpartition("/")[2] in ("resourcequotas", "limitranges"):
                self._answer(200, {"kind": "List", "items": []})
            else:
                self._answer(404, {"message": "no", "reason": "NotFound", "details": {"name": "x"}})

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            plural = self.path.partition("?")[0].rpartition("/")[2]
            if plural == "selfsubjectaccessreviews":
                self._answer(201, {**sent, "status": {"allowed": True}})
                return
            assert "dryRun=All" in self.path
            if plural not in refusals:
                self._answer(201, sent)
                return
            said = f'{plural} "{sent["metadata"]["name"]}" is forbidden: {refusals[plural]}'
            self._answer(403, {"message": said, "reason": "Forbidden"})

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    file = folder / "kubeconfig"
    address = f"http://127.0.0.1:{server.server_port}"
    context = {"cluster": "c", "user": "u", "namespace": NAMESPACE}
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": context}],
    }
    file.write_text(json.dumps(config))
    try:
        yield open_kube(environment={"KUBECONFIG": str(file)})
    finally:
        server.shutdown()
        server.server_close()
