"""The HTTP server of the loader.

The answer of a slow request (such as a checksum) begins with spaces, so that proxies do not close
the connection as idle. Its status is then in the JSON.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, Optional
from urllib.parse import parse_qs, urlsplit

from .tree import BLOCK_BYTES, RequestRefusal, Tree, refuse_error

ADDRESS = "127.0.0.1"  # of the pod; only a port-forward reaches it
SILENCE_SECONDS = 120.0  # read timeout in the middle of a request
SIGN_SECONDS = 5.0
ROOT_VARIABLE = "LOADER_ROOT"
PORT_VARIABLE = "LOADER_PORT"
TOKEN_HASH_VARIABLE = "LOADER_TOKEN_HASH"


class LoaderServer(ThreadingHTTPServer):
    """Serves one tree to clients with the token; `token_hash` is its SHA-256."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, tree: Tree, token_hash: str, port: int) -> None:
        super().__init__((ADDRESS, port), Handler)
        self.tree = tree
        self.token_hash = token_hash


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    timeout = SILENCE_SECONDS
    disable_nagle_algorithm = True
    server: LoaderServer

    def do_GET(self) -> None:
        self._answer({"/": self._greet, "/entries": self._list, "/file": self._read})

    def do_PUT(self) -> None:
        self._answer({"/partial": self._write, "/files": self._write_many})

    def do_POST(self) -> None:
        self._answer(
            {
                "/begin": self._begin_copy,
                "/end": lambda: self._work(self._end_copy),
                "/partial": self._measure,
                "/checksum": lambda: self._work(self._hash),
                "/checksums": self._hash_many,
                "/files": self._read_many,
                "/finish": lambda: self._work(self._finish),
                "/delete": self._delete,
                "/clear": lambda: self._work(self._clear),
            }
        )

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, since file names are private."""

    def _answer(self, actions: Dict[str, Callable[[], None]]) -> None:
        split = urlsplit(self.path)
        self.query = {name: values[-1] for name, values in parse_qs(split.query).items()}
        try:
            token = self.headers.get("Authorization", "").partition("Bearer ")[2]
            found = hashlib.sha256(token.encode()).hexdigest()
            if not hmac.compare_digest(found, self.server.token_hash):
                raise RequestRefusal(401, "token", "the token belongs to another loader")
            if split.path not in actions:
                raise RequestRefusal(404, "unknown", f"{self.command} {split.path} is not served")
            actions[split.path]()
        except RequestRefusal as refusal:
            self._refuse(refusal)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True
        except OSError as error:
            self._refuse(refuse_error(error))

    def _greet(self) -> None:
        self._send(200, {"unfinished": self.server.tree.is_unfinished()})

    def _begin_copy(self) -> None:
        self.server.tree.begin()
        self._send(200, {})

    def _end_copy(self) -> Dict[str, Any]:
        self.server.tree.end()
        return {}

    def _list(self) -> None:
        self._begin("application/jsonl")
        for entry in self.server.tree.list_entries():
            self._write_chunk(json.dumps(entry).encode() + b"\n")
        self._write_chunk(b'{"end": true}\n')
        self._write_chunk(b"")

    def _read(self) -> None:
        with self.server.tree.open(self._path) as file:
            size = file.seek(0, 2)
            left = size - file.seek(min(self._offset, size))
            self.send_response(200)
            self.send_header("Content-Length", str(left))
            self.end_headers()
            while left:
                block = file.read(min(left, BLOCK_BYTES))
                if not block:  # the file was truncated; the client notices the missing bytes
                    self.close_connection = True
                    return
                self.wfile.write(block)
                left -= len(block)

    def _measure(self) -> None:
        self._send(200, {"size_bytes": self.server.tree.partial_size(self._identity)})

    def _write(self) -> None:
        size = self._body_bytes
        there = self.server.tree.write(self._identity, self._offset, self.rfile.read1, size)
        self._send(200, {"size_bytes": there})

    def _write_many(self) -> None:
        """Receive small files: a line of JSON with their names, then the bytes of each."""
        listed = self._read_json(self._head_bytes)
        right = []
        for one in listed:
            held = self._read_fully(int(one["size_bytes"]))
            if self.server.tree.place(str(one["path"]), str(one["sha256"]), held):
                right.append(one["path"])
        self._send(200, {"right": right})

    def _hash_many(self) -> None:
        paths = self._read_json(self._body_bytes)
        self._work(lambda: {"sha256": [self._try_hash(str(path)) for path in paths]})

    def _try_hash(self, path: str) -> Optional[str]:
        try:
            return self.server.tree.hash(path)
        except FileNotFoundError:
            return None

    def _read_many(self) -> None:
        """Send several files: a line of JSON with their sizes, then the bytes of each."""
        held = []
        for path in self._read_json(self._body_bytes):
            with self.server.tree.open(str(path)) as file:
                held.append(file.read())
        head = json.dumps([len(one) for one in held]).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(head) + sum(map(len, held))))
        self.end_headers()
        self.wfile.write(head + b"".join(held))

    def _read_json(self, size: int) -> Any:
        return json.loads(self._read_fully(size))

    def _read_fully(self, size: int) -> bytes:
        held = self.rfile.read(size)
        if len(held) < size:
            raise ConnectionResetError
        return held

    def _delete(self) -> None:
        self.server.tree.delete(self._path)
        self._send(200, {})

    def _clear(self) -> Dict[str, Any]:
        return {"found": self.server.tree.clear()}

    def _hash(self) -> Dict[str, Any]:
        return {"sha256": self.server.tree.hash(self._path)}

    def _finish(self) -> Dict[str, Any]:
        size = int(self.query.get("size_bytes", "0"))
        sha256 = self.query.get("sha256", "")
        right = self.server.tree.finish(self._path, self._identity, size, sha256)
        return {"right": right}

    @property
    def _path(self) -> str:
        return self.query.get("path", "")

    @property
    def _identity(self) -> str:
        return self.query.get("identity", "")

    @property
    def _body_bytes(self) -> int:
        return int(self.headers.get("Content-Length", "0"))

    @property
    def _head_bytes(self) -> int:
        return int(self.query.get("head_bytes", "0"))

    @property
    def _offset(self) -> int:
        return int(self.query.get("offset", "0"))

    def _work(self, act: Callable[[], Dict[str, Any]]) -> None:
        """Answer with the result of `act`; send spaces as keep-alive while it runs."""
        self._begin("application/json")
        done = threading.Event()
        signs = threading.Thread(target=self._send_progress, args=(done,), daemon=True)
        signs.start()
        try:
            answer = {"status": 200, **act()}
        except RequestRefusal as refusal:
            answer = _describe(refusal)
        except OSError as error:
            answer = _describe(refuse_error(error))
        done.set()
        signs.join()
        self._write_chunk(json.dumps(answer).encode())
        self._write_chunk(b"")

    def _send_progress(self, done: threading.Event) -> None:
        try:
            while not done.wait(SIGN_SECONDS):
                self._write_chunk(b" ")
        except OSError:
            pass  # the client is gone; `act` still runs to its end

    def _begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _write_chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()

    def _refuse(self, refusal: RequestRefusal) -> None:
        self.close_connection = True  # it may contain unread bytes
        self._send(refusal.status, _describe(refusal))

    def _send(self, status: int, content: Dict[str, Any]) -> None:
        body = json.dumps({"status": status, **content}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _describe(refusal: RequestRefusal) -> Dict[str, Any]:
    return {"status": refusal.status, "code": refusal.code, "message": refusal.message}


def main() -> int:
    """Serve; return exit code 78 if the root folder is unusable."""
    # Process 1 of a container ignores signals that have no handler.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    root = os.environ.get(ROOT_VARIABLE, "")
    try:
        os.makedirs(root, exist_ok=True)
    except OSError as error:
        sys.stderr.write(f"ended with exit code 78: {root}: {error.strerror}\n")
        return 78
    if not os.access(root, os.R_OK | os.X_OK):
        sys.stderr.write(f"ended with exit code 78: user {os.getuid()} may not read {root!r}\n")
        return 78
    tree = Tree(root)
    port = int(os.environ[PORT_VARIABLE])
    with LoaderServer(tree, os.environ[TOKEN_HASH_VARIABLE], port) as server:
        server.serve_forever()
    return 0
