"""The folder of one cluster: its lease, its processes, its logs; `keeper.py` is the other side."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.control_plane import keeper

PREFIX = "deployer-kube-"
START_SECONDS = 90.0  # many times what a start takes on a busy machine


class ClusterFailed(Exception):
    """A part of the test cluster did not come up; the message ends with its log."""


@dataclass(frozen=True)
class Folder:
    """Where everything of one cluster lies, deleted by its keeper when the last lease ends."""

    path: Path
    lease: (
        int  # a file descriptor with a shared lock; the kernel gives it up when this process dies
    )

    def set_process(
        self, name: str, argv: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> None:
        """Have a process run from now on, and be started again whenever it ends."""
        wanted = {"argv": [str(word) for word in argv], "environment": dict(environment or {})}
        file = self.path / "processes" / f"{name}.json"
        file.with_suffix(".new").write_text(json.dumps(wanted, indent=1))
        file.with_suffix(".new").rename(file)

    def pause_process(self, name: str) -> None:
        """Kill a process with SIGKILL and keep it down until `resume_process`."""
        file = self.path / "processes" / f"{name}.json"
        file.rename(file.with_suffix(".paused"))
        self.wait_for(f"the end of {name}", lambda: not self.pid_file(name).exists())

    def resume_process(self, name: str) -> None:
        """Start a paused process again."""
        file = self.path / "processes" / f"{name}.paused"
        file.rename(file.with_suffix(".json"))

    def pid_file(self, name: str) -> Path:
        """Return the file that exists while a process runs and holds its process id."""
        return self.path / "pids" / name

    def get_pid(self, name: str) -> int:
        """Wait until a process has started and return its process id."""
        self.wait_for(f"a process {name}", lambda: _read(self.pid_file(name)) != "")
        return int(self.pid_file(name).read_text())

    def read_log(self, name: str, lines: int = 30) -> str:
        """Return the last lines of a process's log."""
        return "\n".join(_read(self.path / "log" / f"{name}.log").splitlines()[-lines:])

    def wait_for(
        self,
        what: str,
        is_there: Callable[[], bool],
        log: str = "keeper",
        timeout_seconds: float = START_SECONDS,
    ) -> None:
        """Wait for a state; raise ClusterFailed with the end of a log when it does not come."""
        deadline = time.monotonic() + timeout_seconds
        while not is_there():
            if time.monotonic() > deadline:
                raise ClusterFailed(f"no {what} after {timeout_seconds} s\n{self.read_log(log)}")
            time.sleep(0.05)

    def release(self) -> None:
        """Give up the lease, and if it was the last one wait until everything is gone."""
        with open(self.path / "keeper", "rb") as keeper_alive:
            fcntl.flock(self.lease, fcntl.LOCK_EX)  # waits for the other test processes, if any
            os.close(self.lease)
            fcntl.flock(keeper_alive, fcntl.LOCK_EX)  # the keeper's own until it has ended


def make_folder() -> Folder:
    """Make a folder of its own with a running keeper; short, since sockets lie in it."""
    sweep_folders()
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    path.chmod(0o755)  # containers read what is mounted from it
    for name in ("lease", "keeper"):
        (path / name).touch()
    folder = Folder(path, os.open(path / "lease", os.O_RDWR))
    fcntl.flock(folder.lease, fcntl.LOCK_SH)
    for name in ("links", "log", "pids", "processes"):
        (path / name).mkdir()
    with open(path / "log/keeper.log", "wb") as log:
        subprocess.Popen(
            [sys.executable, "-I", keeper.__file__, str(path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for pytest
        )
    return folder


def join_folder(path: Path) -> Folder | None:
    """Take a lease of a cluster that another process started, or None if it is ending."""
    try:
        lease = os.open(path / "lease", os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lease, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lease)
        return None
    return Folder(path, lease)


def sweep_folders() -> None:
    """Delete what clusters left whose keeper was killed: their processes died with it."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            old = path.stat().st_mtime < time.time() - START_SECONDS
            with open(path / "keeper", "rb") as alive:
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (FileNotFoundError, BlockingIOError):  # ended by itself meanwhile, or in use
            continue
        if old:
            keeper.remove_traces(path)


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listened on a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _read(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""
