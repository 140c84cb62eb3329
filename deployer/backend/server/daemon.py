"""The backend as the rest of `deployer` sees it: start it, ask for it, stop it, add a user."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deployer.backend.data_folder import LOG_FILE, is_served, read_address, read_key, write_key
from deployer.errors import BackendError

if TYPE_CHECKING:
    from deployer.backend.db.database import Connection

__all__ = [
    "Backend",
    "add_user",
    "add_user_key",
    "backend_status",
    "read_key",
    "start_backend",
    "stop_backend",
]

START_SECONDS = 60.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Backend:
    """A data folder and its server; `process_id` is None while nobody serves it."""

    url: str
    entity: str
    data: Path
    process_id: int | None

    @property
    def running(self) -> bool:
        """Tell whether a server process answers for the folder."""
        return self.process_id is not None


def start_backend(data: Path) -> Backend:
    """Serve the folder in the background, if nobody does yet, and wait until it is ready.

    Two calls at the same time end with one server: the second finds the folder held. A server that
    dies while it starts is started again.
    """
    deadline = time.monotonic() + START_SECONDS
    child: subprocess.Popen[bytes] | None = None
    while time.monotonic() < deadline:
        status = backend_status(data)
        if status and status.running and _answers(status.url):
            return status
        if not is_served(data) and (child is None or child.poll() is not None):
            child = _spawn(data)
        time.sleep(POLL_SECONDS)
    raise BackendError(
        f"the backend did not become ready within {START_SECONDS:.0f} s",
        f"its log says why: {data / LOG_FILE}",
    )


def _spawn(data: Path) -> subprocess.Popen[bytes]:
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    command = [
        sys.executable,
        "-m",
        "deployer.backend.server.foreground",
        "127.0.0.1",
        "0",
        str(data),
    ]
    with (data / LOG_FILE).open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd=data,
            env=_server_environment(),
            start_new_session=True,
        )


def _server_environment() -> dict[str, str]:
    """Return the environment without the caller's W&B key, which a server has no use for."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}


def _answers(url: str) -> bool:
    # A proxy of the user's environment cannot reach this machine's own addresses.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/healthz", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def backend_status(data: Path) -> Backend | None:
    """Return the folder's backend, or None if the folder was never served."""
    address = read_address(data)
    if address is None:
        return None
    process_id = address.process_id if is_served(data) else None
    return Backend(address.url, _own_entity(data), data, process_id)


def stop_backend(data: Path) -> bool:
    """Stop the folder's server and wait until it is gone; tell whether there was one."""
    status = backend_status(data)
    if status is None or status.process_id is None:
        return False
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(status.process_id, number)
        if _wait_until_free(data):
            return True
    raise BackendError(f"process {status.process_id} does not end", f"kill -9 {status.process_id}")


def _wait_until_free(data: Path) -> bool:
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        if not is_served(data):
            return True
        time.sleep(POLL_SECONDS)
    return False


def _own_entity(data: Path) -> str:
    from deployer.backend.db.accounts import find_caller
    from deployer.backend.db.database import DATABASE, Store

    store = Store(data / DATABASE)
    try:
        with store.transaction() as db:
            caller = find_caller(db, read_key(data))
    finally:
        store.close()
    if caller is None:
        raise BackendError(f"the key in {data} is not the database's", "deployer backend up")
    return caller.user.name


def add_user(data: Path, name: str, key: str) -> None:
    """Add a user with an entity of their own, also while the backend runs.

    Raises BackendError for a bad or taken name, or a key that no SDK would accept.
    """
    from deployer.backend.db.accounts import create_user

    with _accounts(data, "deployer backend user add NAME --key-stdin") as db:
        create_user(db, name, key, time.time())


def add_user_key(data: Path, name: str, key: str, only: bool) -> None:
    """Give a user one more key, also while the backend runs; with `only`, the others end.

    Raises BackendError for an unknown user, or a key that no SDK would accept or somebody has.
    """
    from deployer.backend.db.accounts import add_key, find_caller

    with _accounts(data, "deployer backend user key NAME --key-stdin") as db:
        first = find_caller(db, read_key(data))
        add_key(db, name, key, time.time(), only)
    # The command line itself works with this one.
    if only and first and first.user.name == name:
        write_key(data, key)


@contextmanager
def _accounts(data: Path, hint: str) -> Iterator[Connection]:
    from deployer.backend.db.database import DATABASE, Store

    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    store = Store(data / DATABASE)
    try:
        with store.transaction() as db:
            yield db
    except ValueError as error:
        raise BackendError(str(error), hint) from error
    finally:
        store.close()
