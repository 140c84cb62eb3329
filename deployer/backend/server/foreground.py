"""Runs a backend in the foreground: first user, port, ready line, log, periodic upkeep."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import NoReturn, TypeVar
from urllib.parse import urlsplit

import uvicorn

from deployer.backend.data_folder import (
    ADDRESS_FILE,
    KEY_FILE,
    FolderLock,
    read_key,
    read_url,
    recall,
    write_key,
    write_private,
)
from deployer.backend.db.accounts import (
    create_user,
    find_caller,
    list_present_users,
    new_key,
    replace_keys,
)
from deployer.backend.db.artifacts import delete_abandoned
from deployer.backend.request import is_full
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.early_termination import EarlyTermination
from deployer.backend.scheduling.lifecycle import Patience
from deployer.backend.scheduling.run_endings import end_silent_runs
from deployer.backend.server.app import build_app
from deployer.backend.server.gate import PORTS, ClientPace, Gate, Rules, build_protocol, is_local
from deployer.backend.storage.backup import forget_cut_off
from deployer.backend.storage.blob_folder import delete_unreferenced
from deployer.errors import BackendError

TEXT = "%(asctime)s %(levelname)s %(message)s"
SAME_SECONDS = 10.0
MOST_KNOWN = 1000
logger = logging.getLogger(__name__)
UPKEEP_SECONDS = 2.0
SELDOM = 5  # upkeep that scans all files runs in every fifth round
MOST_FILES = 65_536
KEPT_FILES = 64  # for the database and uploads, when clients use all others
ACCEPT_AGAIN_SECONDS = 0.1
KEEP_ALIVE_SECONDS = 75  # agents ask every 5 s, and must not reuse a connection that is closing
FAILED = 70  # EX_SOFTWARE; 1 is the exit code of a Python that cannot run this program
YOUNG_OBJECTS = 100_000  # as on the command line: 700 is too low for a page of thousands of runs
CLOCK_FILE_VARIABLE = "DEPLOYER_BACKEND_CLOCK_FILE"
KEY_FILE_VARIABLE = "DEPLOYER_BACKEND_KEY_FILE"
Settings = TypeVar("Settings", Patience, Rules, ClientPace)


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON: time, level, logger, message and exception."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class Seldom(logging.Filter):
    """Passes a repeated message once every ten seconds, with the count of omitted repeats."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        kind = (said, repr(record.exc_info and record.exc_info[1]))
        begun, left_out = self._known.get(kind, (-SAME_SECONDS, 0))
        if record.created - begun < SAME_SECONDS:
            self._known[kind] = (begun, left_out + 1)
            return False
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        self._known[kind] = (record.created, 0)
        if left_out:
            record.msg, record.args = f"{said} (repeated {left_out} times since the last line)", ()
        return True


def log_to_stderr(as_json: bool = False, only: bool = False) -> logging.Handler:
    """Log to stderr, as JSON from level INFO or as text from WARNING.

    `only` removes all other handlers. Returns the handler, which the caller may remove.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if as_json else logging.Formatter(TEXT))
    handler.addFilter(Seldom())
    level = logging.INFO if as_json else logging.WARNING
    handler.setLevel(level)
    logging.basicConfig(level=level, handlers=[handler], force=only)
    return handler


def serve(
    host: str,
    port: int,
    data: Path,
    plain: bool = False,
    public_url: str = "",
    on_listening: Callable[[], object] = lambda: None,
) -> None:
    """Serve the data folder until SIGTERM or SIGINT; call `on_listening` once it listens.

    `port` 0 means the folder's last port, or a free one. `public_url` is the address of a reverse
    proxy. Raises BackendError if the folder is already served, the port is taken, or `public_url`
    is invalid.
    """
    rules = _build_rules(host, public_url)
    os.umask(0o077)
    with FolderLock(data, serving=True):
        for path in data.iterdir():
            with suppress(PermissionError):  # another user's, on a shared volume
                if path.is_file():
                    path.chmod(0o600)
        recall(data)
        forget_cut_off(data)
        now = _now_by_file if CLOCK_FILE_VARIABLE in os.environ else time.time
        backend = Backend(data, plain, _chosen(Patience()), now)
        backend.blobs.clear_leftovers(backend.store)
        _ensure_first_user(backend)
        listener = _listen(host, port or _remembered_port(data))
        url = f"http://{_shown_host(host)}:{listener.getsockname()[1]}"
        write_private(data / ADDRESS_FILE, json.dumps({"url": url}))
        server = _build_server(backend, rules)
        logger.info("serving %s at %s", data, url)
        on_listening()
        print(url, flush=True)  # noqa: T201 - the one line that a caller waits for
        try:
            _run(backend, server, listener)
        finally:
            backend.close()
            logger.info("stopped")


def _now_by_file() -> float:
    """Return the time, shifted by the seconds in a file, so that tests need not wait."""
    with suppress(OSError, ValueError):
        return time.time() + float(Path(os.environ[CLOCK_FILE_VARIABLE]).read_text())
    return time.time()


class _Server(uvicorn.Server):
    """A server that ends the pages' event streams before it waits for running requests.

    It has its own accept loop: when file descriptors run out, asyncio (before Python 3.13) starts
    two thousand accept loops and logs a traceback for each.
    """

    def __init__(self, config: uvicorn.Config, backend: Backend) -> None:
        super().__init__(config)
        self._backend = backend
        self._most = max(1, _limit_open_files() - KEPT_FILES)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets
        await super().startup(sockets=[])
        self._accepting = asyncio.create_task(self._accept(sockets[0]))

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            if len(self.server_state.connections) >= self._most:
                logger.error("%d connections are open; the next one waits", self._most)
                await asyncio.sleep(ACCEPT_AGAIN_SECONDS)
                continue
            try:
                connection, _ = await loop.sock_accept(listener)
                await loop.connect_accepted_socket(self._new_protocol, connection)
            except OSError as error:
                logger.error("a connection could not be accepted: %s", error.strerror)
                await asyncio.sleep(ACCEPT_AGAIN_SECONDS)

    def _new_protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._backend.ending.set()
        self._accepting.cancel()
        await asyncio.wait([self._accepting])
        await super().shutdown(sockets)


def _limit_open_files() -> int:
    """Raise the limit of open files as far as allowed; return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def _build_rules(host: str, public_url: str) -> Rules:
    rules = _chosen(Rules())
    public_url = (public_url or rules.public_url).rstrip("/")
    address = urlsplit(public_url)
    if public_url and (address.scheme not in PORTS or not address.hostname or address.path):
        raise BackendError(
            f"{public_url} is not an address at which a proxy can serve the backend",
            "--public-url https://sweeps.example.org, without a path",
        )
    return replace(
        rules, local=is_local(f"[{host}]" if ":" in host else host), public_url=public_url
    )


def _build_server(backend: Backend, rules: Rules) -> uvicorn.Server:
    """Return the server, and let SIGTERM end it.

    uvicorn raises the signal again after it has ended, which must not interrupt the cleanup.
    """
    config = uvicorn.Config(
        Gate(build_app(backend), rules),
        http=build_protocol(_chosen(ClientPace())),
        loop="asyncio",  # even in an image with uvloop
        ws="none",
        server_header=False,
        proxy_headers=False,
        log_config=None,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=3,
    )
    server = _Server(config, backend)
    signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
    return server


def _run(backend: Backend, server: uvicorn.Server, listener: socket.socket) -> None:
    over = threading.Event()
    upkeep = threading.Thread(target=_keep_up, args=(backend, over), daemon=True)
    upkeep.start()
    try:
        server.run(sockets=[listener])
    finally:
        over.set()
        upkeep.join()


def _keep_up(backend: Backend, over: threading.Event) -> None:
    early = EarlyTermination(backend)
    for number in count(1):
        if over.wait(UPKEEP_SECONDS):
            return
        work: list[Callable[[], None]] = [partial(end_silent_runs, backend), early.stop_poor_runs]
        if number % SELDOM == 0:
            work.append(partial(_delete_leftovers, backend))
        for part in work:
            try:
                part()
            except Exception:  # one failure must not end the upkeep
                logger.exception("maintenance failed; trying again")


def _delete_leftovers(backend: Backend) -> None:
    """Delete abandoned artifacts and unreferenced bytes."""
    with backend.store.transaction() as db:
        delete_abandoned(db, backend.now())
    delete_unreferenced(backend.store, backend.blobs)


def _ensure_first_user(backend: Backend) -> None:
    """Create the folder's first user, and store their key in its 0600 file.

    A new key in DEPLOYER_BACKEND_KEY_FILE, such as a Secret in a cluster, replaces the user's keys.
    Raises BackendError if no SDK would accept it.
    """
    file = Path(os.environ.get(KEY_FILE_VARIABLE, os.devnull))
    given = file.read_text().strip() if file.exists() else ""
    held = read_key(backend.folder) if (backend.folder / KEY_FILE).exists() else ""
    key = given or held or new_key()
    try:
        with backend.store.transaction() as db:
            first = find_caller(db, held) or find_caller(db, key)
            if first and given not in ("", held):
                replace_keys(db, first.user.name, given, backend.now())
            elif first is None and (given or not held or not list_present_users(db)):
                create_user(db, _first_name(), key, backend.now())
                write_key(backend.folder, key)  # after a rollback, the next start uses this key
    except ValueError as error:
        raise BackendError(
            str(error), f"correct the key in the file that {KEY_FILE_VARIABLE} names"
        ) from error
    if given:
        write_key(backend.folder, given)  # after the database, so that the next start can repeat it


def _chosen(usual: Settings) -> Settings:
    """Override limits and times from the environment, so that tests need not wait for minutes."""
    chosen = {
        field.name: type(getattr(usual, field.name))(value)
        for field in fields(usual)
        if (value := os.environ.get(f"DEPLOYER_BACKEND_{field.name.upper()}"))
    }
    return replace(usual, **chosen)


def _first_name() -> str:
    wanted = os.environ.get("USER") or "user"
    return "".join(letter if letter.isalnum() else "-" for letter in wanted).strip("-") or "user"


def _remembered_port(data: Path) -> int:
    url = read_url(data)
    return urlsplit(url).port or 80 if url else 0


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is TCP; else each answer takes 40 ms more.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise BackendError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            "deployer backend serve --port 0 uses a free port",
        ) from error
    listener.listen(512)
    return listener


def _shown_host(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def main() -> None:
    """Serve from `python -m deployer.backend.server.foreground HOST PORT FOLDER [plain]`."""
    host, port, folder, *rest = sys.argv[1:]
    gc.set_threshold(YOUNG_OBJECTS)
    log_to_stderr()
    try:
        serve(host, int(port), Path(folder), plain="plain" in rest)
    except BackendError as error:
        _end(error.message)
    except Exception as error:
        _end(f"the disk of {folder} is full" if is_full(error) else traceback.format_exc())


def _end(said: str) -> NoReturn:
    sys.stderr.write(f"{said.rstrip()}\n")
    sys.exit(FAILED)


if __name__ == "__main__":
    main()
