"""S3 servers for tests: nanio, a Python package, and versitygw, which is built from its Go module.

Both check signatures. nanio comes with the developers' packages; versitygw takes two minutes of two
cores once per machine, so its tests are in `make test-full` alone.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KEY, SECRET = "a-key-of-tests", "a-secret-of-tests"
BUCKET = "datasets"
READY_SECONDS = 60


@dataclass(frozen=True)
class ObjectServer:
    """A server with one bucket, whose objects are files in `folder`."""

    url: str
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the credentials for it."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def serve_nanio(folder: Path) -> Iterator[ObjectServer]:
    """Serve a folder with nanio."""
    with _serve(folder, _nanio) as server:
        yield server


@contextmanager
def serve_versitygw(folder: Path) -> Iterator[ObjectServer]:
    """Serve a folder with versitygw."""
    with _serve(folder, _versitygw) as server:
        yield server


def _nanio(port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    command = [sys.executable, "-m", "nanio", "serve", "--data-dir", str(folder)]
    where = ["--host", "127.0.0.1", "--port", str(port), "--no-access-log"]
    return [*command, *where], {"NANIO_ACCESS_KEY": KEY, "NANIO_SECRET_KEY": SECRET}


def _versitygw(port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    from tests.cluster.control_plane.binaries import find_programs

    command = [str(find_programs()["versitygw"]), "--port", f"127.0.0.1:{port}", "--quiet"]
    return [*command, "posix", str(folder)], {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}


@contextmanager
def _serve(
    folder: Path, build: Callable[[int, Path], tuple[list[str], dict[str, str]]]
) -> Iterator[ObjectServer]:
    (folder / BUCKET).mkdir(parents=True)
    port = find_port()
    command, environment = build(port, folder)
    process = subprocess.Popen(command, env={**os.environ, **environment})
    try:
        _await_port(port, process)
        yield ObjectServer(f"http://127.0.0.1:{port}", folder / BUCKET)
    finally:
        process.terminate()
        process.wait(20)


def find_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, "the server has ended"
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"the server does not listen after {READY_SECONDS} s")


@contextmanager
def serve_gcs() -> Iterator[str]:
    """Serve an emulator of Google Cloud Storage, with the bucket in memory; yield its address."""
    code = "import sys; from gcp_storage_emulator.server import create_server as make; "
    code += "make('127.0.0.1', int(sys.argv[1]), in_memory=True, default_bucket=sys.argv[2]).run()"
    port = find_port()
    process = subprocess.Popen([sys.executable, "-c", code, str(port), BUCKET])
    try:
        _await_port(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(20)
