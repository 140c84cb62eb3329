"""Records a session: its parts side by side, each through a proxy of its own that keeps all."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aiohttp import web

from tests.conftest import ServedBackend, serve_backend
from tests.contract.session import PARTS
from tests.faults.proxy import FaultProxy

ROOT = Path(__file__).parents[2]
PART_SECONDS = 300  # far above what the slowest part takes; old SDKs poll more slowly


@dataclass(frozen=True)
class Exchange:
    """One request with its answer, and the step of the session in which it was made."""

    step: str
    method: str
    path: str
    sent: bytes
    status: int
    answered: bytes


@dataclass(frozen=True)
class Session:
    """What an SDK did: all that it asked, the steps that failed, what read back otherwise.

    `package` is the folder of its source.
    """

    version: str
    package: Path
    exchanges: tuple[Exchange, ...]
    failed: Mapping[str, str]
    differs: Mapping[str, Any]


class RecordingProxy(FaultProxy):
    """A proxy without faults that keeps what passes."""

    def __init__(self, upstream_url: str, step_file: Path) -> None:
        super().__init__(upstream_url)
        self.exchanges: list[Exchange] = []
        self._step_file = step_file

    async def _forward(self, request: web.Request, body: bytes) -> web.Response | None:
        reply = await super()._forward(request, body)
        if reply is not None:
            sent = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
            answered = reply.body if isinstance(reply.body, bytes) else b""
            step = self._step_file.read_text() if self._step_file.exists() else "start"
            self.exchanges.append(
                Exchange(step, request.method, request.path, sent, reply.status, answered)
            )
        return reply


def record(python: Path) -> Session:
    """Run the session with the SDK of a Python environment, against a backend of its own."""
    with TemporaryDirectory() as name, ExitStack() as cleared:
        folder = Path(name)
        backend = serve_backend(folder / "data")
        cleared.callback(backend.end)
        proxies: dict[str, RecordingProxy] = {}
        running = {}
        for part in PARTS:
            (folder / part).mkdir()
            proxies[part] = RecordingProxy(backend.url, folder / part / "step")
            cleared.enter_context(proxies[part])
            running[part] = start_part(python, folder / part, backend, proxies[part].url)
        outcomes = [finish_part(folder / part, process) for part, process in running.items()]
    return summarise(outcomes, [e for proxy in proxies.values() for e in proxy.exchanges])


def start_part(
    python: Path, folder: Path, backend: ServedBackend, url: str
) -> subprocess.Popen[bytes]:
    """Start a part in a folder and a home of its own, with none of the caller's settings."""
    foreign = ("WANDB_", "DEPLOYER_", "PYTHON", "VIRTUAL_ENV", "NETRC")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    environment = {
        **kept,
        **backend.environment,
        "WANDB_BASE_URL": url,
        "CONTRACT_SERVER": backend.url,
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "WANDB_CACHE_DIR": str(folder / "cache"),
        "WANDB_DATA_DIR": str(folder / "staging"),
    }
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [python, "-m", "tests.contract.session", folder.name],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        )


def finish_part(folder: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Wait for a part and return what it tells; one that broke off says why."""
    try:
        process.wait(PART_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
    found = folder / "outcome.json"
    if found.exists():
        return dict(json.loads(found.read_text()))
    end = (folder / "log").read_text()[-2000:]
    return {"failed": {f"the part {folder.name}": f"broke off at {last_step(folder)}: {end}"}}


def last_step(folder: Path) -> str:
    """Return the step that was announced last."""
    step = folder / "step"
    return step.read_text() if step.exists() else "its start"


def summarise(outcomes: list[dict[str, Any]], exchanges: list[Exchange]) -> Session:
    """Bring the parts together."""
    failed: dict[str, str] = {}
    differs: dict[str, Any] = {}
    for outcome in outcomes:
        failed |= outcome["failed"]
        differs |= outcome.get("differs", {})
    told = [outcome for outcome in outcomes if "wandb" in outcome]
    assert told, f"no part of the session came to its end: {failed}"
    package = Path(told[0]["package"])
    return Session(told[0]["wandb"], package, tuple(exchanges), failed, differs)
