"""The backend in the background: start it, ask for its status, stop it."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
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
from deployer.backend.server.health import Health, disk_is_full, probe
from deployer.errors import BackendError, BackendStopped
from deployer.waiting import waiting_for

__all__ = [
    "Backend",
    "backend_status",
    "read_key",
    "revive_backend",
    "start_backend",
    "stop_backend",
]

START_SECONDS = 60.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.05
# A machine under load answers late now and then: so many questions in a row that nobody answers.
SILENT_PROBES = 3
# A server that is killed while it starts is started again; one that ends so often has a reason.
STARTS = 3


@dataclass(frozen=True)
class Backend:
    """A data folder and its server; `process_id` is None while nobody serves it."""

    url: str
    entity: str
    data: Path
    process_id: int | None
    health: Health = Health.AWAY

    @property
    def running(self) -> bool:
        """Tell whether a server process holds the folder."""
        return self.process_id is not None

    def describe_trouble(self) -> BackendError | None:
        """Say what is wrong with a running server and what to do, if anything is."""
        if self.health is Health.HUNG:
            return BackendError(
                f"the embedded backend hangs: process {self.process_id} answers nothing"
                f" at {self.url}",
                "deployer backend down ends it, deployer backend up serves the same data again",
            )
        if self.health is Health.DISK_FULL:
            return build_disk_full(self.data)
        return None


def build_disk_full(data: Path) -> BackendError:
    """Return the error of a backend that has no room to write."""
    return BackendError(f"the disk of {data} is full", f"make room: df -h {data}")


def start_backend(data: Path) -> Backend:
    """Serve the folder in the background, if nobody does yet, and wait until it is ready.

    Two calls at the same time end with one server: the second finds the folder held. A server that
    dies while it starts is started again. Raises BackendError if it hangs or does not start, or if
    it is of another version.
    """
    recall(data)
    deadline = time.monotonic() + START_SECONDS
    child: subprocess.Popen[bytes] | None = None
    starts = silent = 0
    while time.monotonic() < deadline:
        if is_served(data):
            status = _look(data, is_new=child is not None)
            if status and status.health in (Health.READY, Health.DISK_FULL):
                return status
            silent = silent + 1 if status and status.health is Health.HUNG else 0
            if status and silent >= SILENT_PROBES:
                raise status.describe_trouble() or AssertionError
        elif child is None or child.poll() is not None:
            if starts and disk_is_full(data):
                raise build_disk_full(data)
            if starts == STARTS:
                raise BackendError(f"the backend ends as it starts: {_last_word(data)}", _log(data))
            child, starts = _spawn(data), starts + 1
        time.sleep(POLL_SECONDS)
    raise BackendError(
        f"the backend did not become ready within {START_SECONDS:.0f} s: {_last_word(data)}",
        _log(data),
    )


def _look(data: Path, is_new: bool) -> Backend | None:
    """Return the status of a server; None while one of our own has not said its address yet."""
    url = read_url(data)
    if url is None:
        return None
    with waiting_for("the embedded backend to answer"):
        health = probe(url)
    if health not in (Health.READY, Health.DISK_FULL):
        return Backend(url, "", data, read_server_id(data), health)
    if not is_new:
        _check_version(data)
    return backend_status(data)


def _check_version(data: Path) -> None:
    from deployer.backend.db.schema import check_schema, schema_of
    from deployer.backend.db.store import DATABASE, read_only

    with read_only(data / DATABASE) as db:
        check_schema(data, schema_of(db))


def _log(data: Path) -> str:
    return f"its log says more: {data / LOG_FILE}"


def _last_word(data: Path) -> str:
    """Return the last line of the log, which says why a server ended."""
    try:
        lines = (data / LOG_FILE).read_text(errors="replace").split("\n")
    except OSError:
        return "it says nothing"
    return next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")


def _spawn(data: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "deployer.backend.server.foreground",
        "127.0.0.1",
        "0",
        str(data),
    ]
    try:
        make_data_folder(data)
        with open_private(data / LOG_FILE) as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=data,
                env=_server_environment(),
                start_new_session=True,
            )
    except OSError as error:
        if disk_is_full(data.parent):
            raise build_disk_full(data) from error
        hint = "deployer backend up --data FOLDER"
        raise BackendError(f"{data}: {(error.strerror or str(error)).lower()}", hint) from error


def _server_environment() -> dict[str, str]:
    """Return the environment without the caller's W&B key, which a server has no use for."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}


def backend_status(data: Path) -> Backend | None:
    """Return the folder's backend, or None if the folder was never served.

    A server that does not answer within a few seconds is told by its `health`.
    """
    url = read_url(data)
    if url is None:
        return None
    process_id = read_server_id(data)
    if process_id is None:
        return Backend(url, _own_entity(data), data, None)
    return Backend(url, _own_entity(data), data, process_id, probe(url))


def revive_backend(data: Path) -> bool:
    """Serve a folder again whose server died, and tell whether it had.

    Raises BackendStopped if somebody stopped it, and BackendError if it hangs or does not start.
    """
    if is_dismissed(data):
        raise BackendStopped("the embedded backend was stopped", "deployer backend up")
    status = backend_status(data)
    if status is None or not status.running:
        start_backend(data)
        return True
    if status.health is Health.HUNG:
        raise status.describe_trouble() or AssertionError
    return False


def stop_backend(data: Path, *, for_good: bool = True) -> bool:
    """Stop the folder's server and wait until it is gone; tell whether there was one.

    `for_good` is written down first: whoever watches a sweep does not start it again.
    """
    if for_good and data.is_dir():
        dismiss(data)
    if not is_served(data):
        return False
    with waiting_for("the embedded backend to end"):
        for number in (signal.SIGTERM, signal.SIGKILL):
            process_id = read_server_id(data)
            if process_id is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process_id, number)
            if _wait_until_free(data):
                return True
    if process_id is None:
        raise BackendError(f"{data} is used by another command", f"fuser {data / LOCK_FILE}")
    raise BackendError(f"process {process_id} does not end", f"kill -9 {process_id}")


def _wait_until_free(data: Path) -> bool:
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        if not is_served(data):
            return True
        time.sleep(POLL_SECONDS)
    return False


def _own_entity(data: Path) -> str:
    """Return whose the folder's key is, from a database of any version."""
    from deployer.backend.db.store import DATABASE, read_only
    from deployer.backend.db.users.accounts import hash_key

    question = "SELECT name FROM users JOIN keys ON keys.user_id = users.id WHERE keys.hash = ?"
    try:
        with read_only(data / DATABASE) as db:
            row = db.execute(question, (hash_key(read_key(data)),)).fetchone()
    except sqlite3.OperationalError as error:
        raise BackendError(f"{data / DATABASE}: {error}", "deployer backend up") from error
    if row is None:
        raise BackendError(f"the key in {data} is not the database's", "deployer backend up")
    return str(row[0])
