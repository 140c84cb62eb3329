"""The backend as a background process: start, health check, stop."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from enum import StrEnum
from http.client import HTTPException
from pathlib import Path

from deployer.backend.data_folder import (
    LOCK_FILE,
    LOG_FILE,
    dismiss,
    is_dismissed,
    is_served,
    make_data_folder,
    open_private,
    read_key,
    read_server_id,
    read_url,
    recall,
)
from deployer.errors import BackendError, BackendStopped
from deployer.waiting import waiting_for

PROBE_SECONDS = 3.0
ROOM_BYTES = 1 << 20  # with less free space, the next write may fail
START_SECONDS = 60.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.05
SILENT_PROBES = 3  # consecutive timeouts that mean a hang; under load, a single one may occur
STARTS = 3  # a server killed during its start is restarted


class Health(StrEnum):
    """A server's own report, or the conclusion from a failed request."""

    READY = "ready"
    DISK_FULL = "disk full"
    HUNG = "hung"  # it accepts connections but does not answer
    AWAY = "away"  # no process accepts connections


def probe(url: str, seconds: float = PROBE_SECONDS) -> Health:
    # Ignore proxies of the user's environment, which cannot reach local addresses.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/healthz", timeout=seconds) as reply:
            said = reply.read().decode()
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)  # of a URLError
        return Health.HUNG if isinstance(reason, TimeoutError) else Health.AWAY
    return Health.DISK_FULL if said == Health.DISK_FULL else Health.READY


def disk_is_full(folder: Path) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < ROOM_BYTES


@dataclass(frozen=True)
class LocalBackend:
    """A data folder and its server; `process_id` is None if no server runs."""

    url: str
    entity: str
    data: Path
    process_id: int | None
    health: Health

    @property
    def running(self) -> bool:
        return self.process_id is not None

    def describe_trouble(self) -> BackendError | None:
        """Return the error and its remedy if the server hangs or its disk is full."""
        if self.health is Health.HUNG:
            return _build_hung(self.url, self.process_id)
        if self.health is Health.DISK_FULL:
            return _build_disk_full(self.data)
        return None


def _build_hung(url: str, process_id: int | None) -> BackendError:
    return BackendError(
        f"the embedded backend hangs: process {process_id} does not answer at {url}",
        "stop it with deployer backend down, then serve the same data: deployer backend up",
    )


def _build_disk_full(data: Path) -> BackendError:
    return BackendError(f"the disk of {data} is full", f"make room: df -h {data}")


def start_backend(data: Path) -> LocalBackend:
    """Serve the folder in the background, unless already served, and wait until it is ready.

    Two concurrent calls end with one server: the second finds the folder locked. Raises
    BackendError if the server hangs, does not start, or is of another version.
    """
    recall(data)
    deadline = time.monotonic() + START_SECONDS
    hint = f"see its log: {data / LOG_FILE}"
    child: subprocess.Popen[bytes] | None = None
    starts = silent = 0
    while time.monotonic() < deadline:
        if is_served(data):
            url = read_url(data) or ""  # a server writes it once it listens
            with waiting_for("the embedded backend to answer"):
                health = probe(url) if url else Health.AWAY
            if health in (Health.READY, Health.DISK_FULL):
                _check_version(data)
                return LocalBackend(url, _own_entity(data), data, read_server_id(data), health)
            silent = silent + 1 if health is Health.HUNG else 0
            if silent == SILENT_PROBES:
                raise _build_hung(url, read_server_id(data))
        elif child is None or child.poll() is not None:
            if starts and disk_is_full(data):
                raise _build_disk_full(data)
            if starts == STARTS:
                raise BackendError(f"the backend exits during startup: {_last_word(data)}", hint)
            child, starts = _spawn(data), starts + 1
        time.sleep(POLL_SECONDS)
    raise BackendError(
        f"the backend did not become ready within {START_SECONDS:.0f} s: {_last_word(data)}",
        hint,
    )


def _check_version(data: Path) -> None:
    from deployer.backend.db.store import DATABASE, check_schema, read_only, schema_of

    with read_only(data / DATABASE) as db:
        check_schema(data, schema_of(db))


def _last_word(data: Path) -> str:
    """Return the last line of the log, which says why a server ended."""
    with contextlib.suppress(OSError):
        if said := (data / LOG_FILE).read_text(errors="replace").strip():
            return said.rpartition("\n")[2].strip()
    return "its log is empty"


def _spawn(data: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "deployer.backend.server.foreground",
        "127.0.0.1",
        "0",
        str(data),
    ]
    # A server has no use for its caller's W&B key.
    environment = {name: os.environ[name] for name in os.environ if not name.startswith("WANDB_")}
    try:
        make_data_folder(data)
        with open_private(data / LOG_FILE) as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=data,
                env=environment,
                start_new_session=True,
            )
    except OSError as error:
        if disk_is_full(data.parent):
            raise _build_disk_full(data) from error
        hint = "deployer backend up --data FOLDER"
        raise BackendError(f"{data}: {(error.strerror or str(error)).lower()}", hint) from error


def backend_status(data: Path) -> LocalBackend | None:
    """Return the folder's backend, or None if the folder was never served."""
    url = read_url(data)
    if url is None:
        return None
    process_id = read_server_id(data)
    health = Health.AWAY if process_id is None else probe(url)
    return LocalBackend(url, _own_entity(data), data, process_id, health)


def revive_backend(data: Path) -> bool:
    """Restart a folder's server if it died; return True if it had.

    Raises BackendStopped if a user stopped it, BackendError if it hangs or does not start.
    """
    if is_dismissed(data):
        raise BackendStopped("the embedded backend was stopped", "deployer backend up")
    status = backend_status(data)
    if status is None or not status.running:
        start_backend(data)
        return True
    if status.health is Health.HUNG:
        raise _build_hung(status.url, status.process_id)
    return False


def stop_backend(data: Path, *, for_good: bool = True) -> bool:
    """Stop the folder's server and wait until it has ended; return False if none ran.

    After a stop `for_good`, no watcher of a sweep restarts it. Raises BackendError.
    """
    if for_good and data.is_dir():
        dismiss(data)
    if not is_served(data):
        return False
    with waiting_for("the embedded backend to stop"):
        for number in (signal.SIGTERM, signal.SIGKILL):
            process_id = read_server_id(data)
            if process_id is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process_id, number)
            if _wait_until_free(data):
                return True
    if process_id is None:
        raise BackendError(f"{data} is used by another command", f"fuser {data / LOCK_FILE}")
    raise BackendError(f"process {process_id} has not stopped", f"kill -9 {process_id}")


def _wait_until_free(data: Path) -> bool:
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        if not is_served(data):
            return True
        time.sleep(POLL_SECONDS)
    return False


def _own_entity(data: Path) -> str:
    """Return the name of the folder key's user, from a database of any version."""
    from deployer.backend.db.accounts import hash_key
    from deployer.backend.db.store import DATABASE, read_only

    question = "SELECT name FROM users JOIN keys ON keys.user_id = users.id WHERE keys.hash = ?"
    try:
        with read_only(data / DATABASE) as db:
            row = db.execute(question, (hash_key(read_key(data)),)).fetchone()
    except sqlite3.OperationalError as error:
        raise BackendError(f"{data / DATABASE}: {error}", "deployer backend up") from error
    if row is None:
        raise BackendError(f"the key in {data} does not match the database", "deployer backend up")
    return str(row[0])
