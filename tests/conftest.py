"""Fixtures that every tier shares: a home of its own, and a real backend process."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import psutil
import pytest

from deployer.backend.data_folder import read_key
from tests.forked import fork_backend, start_backend

pytest_plugins = ["tests.limits", "tests.leaks"]

# Whom a shell starts in the background ignores Ctrl-C, and so would whatever the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# gRPC, once used, ends every fork of its process, unless it is told to leave forks alone.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

END_SECONDS = 30.0

# A key that is long enough for the SDK and belongs to nobody.
FOREIGN_KEY = "f" * 40


@dataclass(frozen=True)
class WandbServer:
    """A W&B server, whoever runs it, and the key that it knows."""

    url: str
    key: str = field(repr=False)
    entity: str

    @property
    def environment(self) -> dict[str, str]:
        """Return what the plain SDK needs to talk to this server."""
        return {
            "WANDB_BASE_URL": self.url,
            "WANDB_API_KEY": self.key,
            "WANDB_ENTITY": self.entity,
            "WANDB_ERROR_REPORTING": "false",
        }


@dataclass(frozen=True)
class ServedBackend(WandbServer):
    """A backend process of a test and how to reach it."""

    data: Path
    process: psutil.Process

    def end(self) -> int:
        """End it as an init system does; return its exit code."""
        self.process.terminate()
        return self.process.wait(END_SECONDS)

    def kill(self) -> None:
        """Kill it, as a lack of memory does, unless it has ended."""
        with suppress(psutil.NoSuchProcess):
            self.process.kill()
        self.process.wait(END_SECONDS)


def serve_backend(data: Path, *flags: str, port: int = 0, afresh: bool = False) -> ServedBackend:
    """Start a backend process on a folder and wait for the line that says it is ready.

    It is a fork of this process, or one that begins `afresh`, which takes half a second of a core:
    for what is measured, and for what looks at a process's command or preloads a library.
    """
    start = start_backend if afresh else fork_backend
    environment = {**os.environ, "USER": "tester"}
    process, output = start(["127.0.0.1", str(port), str(data), *flags], environment)
    with open(output) as said:
        url = said.readline().strip()
    assert url, f"the backend ended before it was ready: {process.wait(10)}"
    return ServedBackend(url, read_key(data), "tester", data, process)


def pytest_collection() -> None:
    """Collect no garbage while modules are loaded: all of them stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave what was loaded out of every later collection of garbage."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let slow tests begin first, the longest at once, so that none of them is alone at the end."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[float, int]:
    """Return where in the order a test stands.

    Slow tests are mixed: those of one folder compute while those of another wait.
    """
    slow = item.get_closest_marker("slow")
    if not slow:
        return 1.0, 0
    alone = item.get_closest_marker("kube") is not None
    return -slow.kwargs.get("seconds", 0.0), 0 if alone else crc32(item.nodeid.encode())


class Told(logging.Handler):
    """Keeps what the library tells, as a command shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        sign = "warning: " if record.levelno == logging.WARNING else ""
        self.lines.append(sign + record.getMessage())


@contextmanager
def keep_told() -> Iterator[list[str]]:
    """Give a list of what the library tells within the block."""
    logger, handler = logging.getLogger("deployer"), Told()
    handler.addFilter(lambda record: not record.name.startswith("deployer.backend"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)


@pytest.fixture
def told() -> Iterator[list[str]]:
    """Give a list of what the library tells during the test."""
    with keep_told() as lines:
        yield lines


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test an empty HOME and state folder, no W&B settings, and our own Python."""
    for name in [name for name in os.environ if name.startswith(("WANDB_", "DEPLOYER_"))]:
        monkeypatch.delenv(name)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("NETRC", str(folder / ".netrc"))
    monkeypatch.setenv("DEPLOYER_HOME", str(folder / "deployer"))
    # As in an environment that is activated: each `python` on PATH, which may be a slow shim of a
    # version manager, would be asked whether it has wandb.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    # Else pydantic, and so each `import wandb`, reads what every installed package says of itself.
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "__all__")
    return folder


@pytest.fixture(scope="session")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBackend]:
    """Serve one backend for the whole session; tests use projects of their own."""
    served = serve_backend(tmp_path_factory.mktemp("backend") / "data")
    yield served
    served.end()


@pytest.fixture(scope="session")
def plain_backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBackend]:
    """Serve a backend that hides whatever W&B's own server does not have."""
    served = serve_backend(tmp_path_factory.mktemp("plain") / "data", "plain")
    yield served
    served.end()
