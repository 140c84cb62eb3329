"""A real registry with TLS and a password, or with a token server, for as long as a test wants."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trustme
from google.auth import crypt, jwt

from tests.images.tools import find_registry

USER, PASSWORD = "carol", "only-the-tests-know-it"
START_SECONDS = 30.0


@dataclass(frozen=True)
class RunningRegistry:
    """A registry and what its users need."""

    address: str
    folder: Path

    @property
    def ca(self) -> Path:
        """Return the file of the authority that vouches for it."""
        return self.folder / "ca.pem"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables with which `deployer` gets in."""
        return {
            "DEPLOYER_REGISTRY_USER": USER,
            "DEPLOYER_REGISTRY_PASSWORD": PASSWORD,
            "DEPLOYER_REGISTRY_CA": str(self.ca),
        }

    def count_stored_bytes(self) -> int:
        """Return what all layers, configurations and manifests take."""
        blobs = self.folder / "data/docker/registry/v2/blobs"
        return sum(path.stat().st_size for path in blobs.rglob("data"))

    def read_log(self) -> str:
        """Return what the registry said."""
        return (self.folder / "registry.log").read_text()


@contextmanager
def serve_registry(
    folder: Path, host: str = "127.0.0.1", *, tokens: bool = False, uploads_at: str = ""
) -> Iterator[RunningRegistry]:
    """Run a registry on an address of this machine.

    `tokens`: it sends users to a token server. `uploads_at`: it sends uploads to this address.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    leaf = authority.issue_cert("localhost", host)
    leaf.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    leaf.private_key_pem.write_to_path(folder / "tls.key")
    running = RunningRegistry(f"{host}:{_free_port(host)}", folder)
    with ExitStack() as stack:
        if tokens:
            realm = stack.enter_context(_serve_tokens(authority))
            bundle = {"issuer": "tests", "service": "registry", "rootcertbundle": f"{running.ca}"}
            auth: dict[str, Any] = {"token": {"realm": realm, **bundle}}
        else:
            (folder / "htpasswd").write_text(_hash_password())
            auth = {"htpasswd": {"realm": "tests", "path": f"{folder}/htpasswd"}}
        settings = _build_settings(running, auth)
        if uploads_at:
            settings["http"]["host"] = uploads_at
        (folder / "config.yml").write_text(json.dumps(settings))
        stack.enter_context(_run(running))
        yield running


def _build_settings(running: RunningRegistry, auth: Mapping[str, Any]) -> dict[str, Any]:
    folder = running.folder
    tls = {"certificate": f"{folder}/tls.crt", "key": f"{folder}/tls.key"}
    return {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": False}},
        "storage": {"filesystem": {"rootdirectory": f"{folder}/data"}},
        "http": {"addr": running.address, "tls": tls},
        "auth": dict(auth),
    }


@contextmanager
def _run(running: RunningRegistry) -> Iterator[None]:
    # The registry takes every variable of this name as one of its settings.
    given = {name: os.environ[name] for name in os.environ if not name.startswith("REGISTRY_")}
    with open(running.folder / "registry.log", "wb") as log:
        process = subprocess.Popen(
            [find_registry(), "serve", running.folder / "config.yml"],
            stdout=log,
            stderr=log,
            env=given,
        )
    try:
        _wait(running, process)
        yield
    finally:
        process.kill()
        process.wait()


def _wait(running: RunningRegistry, process: subprocess.Popen[bytes]) -> None:
    host, port = running.address.rsplit(":", 1)
    deadline = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as one:
            if one.connect_ex((host, int(port))) == 0:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"the registry did not start\n{running.read_log()}")
        time.sleep(0.02)


def _free_port(host: str) -> int:
    with socket.socket() as one:
        one.bind((host, 0))
        return int(one.getsockname()[1])


def _hash_password() -> str:
    """Return a line of htpasswd: bcrypt, which Python lacks and every Linux's libcrypt has."""
    libcrypt = ctypes.CDLL("libcrypt.so.1").crypt
    libcrypt.restype = ctypes.c_char_p
    salt = f"$2b$05${secrets.token_hex(11)}"
    return f"{USER}:{libcrypt(PASSWORD.encode(), salt.encode()).decode()}\n"


@contextmanager
def _serve_tokens(authority: trustme.CA) -> Iterator[str]:
    """Give the address of a token server; source: distribution.github.io/…/spec/auth/jwt."""
    signing = authority.issue_cert("tokens.invalid", key_type=trustme.KeyType.RSA)
    chain = [base64.b64encode(_to_der(pem.bytes())).decode() for pem in signing.cert_chain_pems]
    signer = crypt.RSASigner.from_string(signing.private_key_pem.bytes())
    expected = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") != f"Basic {expected}":
                self.send_error(401)
                return
            kind, name, actions = parse_qs(urlsplit(self.path).query)["scope"][0].split(":")
            now = int(time.time())
            access = [{"type": kind, "name": name, "actions": actions.split(",")}]
            times = {"iat": now, "nbf": now - 10, "exp": now + 300}
            claims = {"iss": "tests", "sub": USER, "aud": "registry", "access": access, **times}
            token = jwt.encode(signer, claims, header={"x5c": chain})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"token": token.decode()}).encode())

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()


def _to_der(pem: bytes) -> bytes:
    return base64.b64decode(b"".join(pem.splitlines()[1:-1]))
