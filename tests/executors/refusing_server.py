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


class Answering(BaseHTTPRequestHandler):
    """Answers in JSON, and keeps quiet."""

    def answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve_kube(folder: Path, handler: type[Answering]) -> Iterator[Kube]:
    """Yield a client of a server on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
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

    class Server(Answering):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path.endswith(tuple(hidden)):
                self.answer(403, {"message": f"{path} is forbidden", "reason": "Forbidden"})
            elif path == "/version":
                self.answer(200, {"major": "1", "minor": "30"})
            elif path.endswith(tuple(there)):
                self.answer(200, {"metadata": {"name": path.rpartition("/")[2]}})
            elif path.endswith("/resourcequotas"):
                hard = dict.fromkeys(refusals, "10")
                quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
                self.answer(200, {"kind": "List", "items": [quota] if hard else []})
            else:
                self.answer(404, {"message": "no", "reason": "NotFound", "details": {"name": "x"}})

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            plural = self.path.partition("?")[0].rpartition("/")[2]
            if plural == "selfsubjectaccessreviews":
                self.answer(201, {**sent, "status": {"allowed": True}})
                return
            if plural == "selfsubjectrulesreviews":  # as of an authorizer behind a webhook
                self.answer(201, {**sent, "status": {"resourceRules": [], "incomplete": True}})
                return
            assert "dryRun=All" in self.path
            if plural not in refusals:
                self.answer(201, sent)
                return
            said = f'{plural} "{sent["metadata"]["name"]}" is forbidden: {refusals[plural]}'
            self.answer(403, {"message": said, "reason": "Forbidden"})

    with serve_kube(folder, Server) as kube:
        yield kube
