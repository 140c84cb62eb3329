"""The data loader as its pod runs it: from its zip file, by an interpreter without any package."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deployer.executors.kubernetes.data.loader_client import LoaderClient
from deployer.executors.kubernetes.data.volumes import VolumeStore
from deployer.images.code_archive import build_loader_zip

TOKEN = "a token of this test"


def find_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def serve_folder(root: Path, port: int = 0) -> Iterator[str]:
    """Run a loader on a folder and yield its address; it ends with the block."""
    port = port or find_port()
    program = root.parent / "loader.zip"
    program.write_bytes(build_loader_zip())
    environment = {
        "LOADER_ROOT": str(root),
        "LOADER_PORT": str(port),
        "LOADER_TOKEN_HASH": hashlib.sha256(TOKEN.encode()).hexdigest(),
    }
    process = subprocess.Popen([sys.executable, "-I", "-S", str(program)], env=environment)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        assert process.wait(10) == 0


@contextmanager
def open_volume(root: Path) -> Iterator[VolumeStore]:
    """Yield a folder as a volume behind a loader."""
    with serve_folder(root) as url:
        client = LoaderClient(url, TOKEN, "claim test")
        client.wait_until_up()
        yield VolumeStore(client, "claim test", client.close)
