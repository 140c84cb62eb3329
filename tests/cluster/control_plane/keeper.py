"""Keep the processes of a test cluster running while a test process holds the lease, then clean up.

Runs as `python keeper.py FOLDER`, knows nothing but the standard library and decides nothing:
every `FOLDER/processes/NAME.json` (`{"argv": [...], "environment": {...}}`) is a process that
should run. A process that ends is started again, as the kubelet of a real control plane does; a
file that goes takes its process with it. When nobody holds a lock on `FOLDER/lease` any more,
whether the tests ended, were interrupted or were killed, everything is killed and deleted.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

PERIOD_SECONDS = 0.05
CGROUPS = Path("/sys/fs/cgroup")


class Keeper:
    """The processes of one cluster folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def reconcile(self) -> None:
        """Start what is wanted and does not run, and kill what runs and is no longer wanted."""
        wanted = {file.stem: file for file in (self.folder / "processes").glob("*.json")}
        for name, process in list(self.running.items()):
            if name not in wanted and process.poll() is None:
                process.kill()
                process.wait()
            if process.poll() is not None:
                self._forget(name)
        for name in wanted.keys() - self.running.keys():
            self._start(name, wanted[name])

    def stop_all(self) -> None:
        """Kill every process; nothing of the data is kept, so nobody needs time to shut down."""
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait()

    def _start(self, name: str, file: Path) -> None:
        try:
            wanted = json.loads(file.read_text())
        except FileNotFoundError:  # withdrawn since it was listed
            return
        # --pdeathsig: a killed keeper takes its children along.
        argv = ["setpriv", "--pdeathsig", "KILL", *wanted["argv"]]
        with open(self.folder / "log" / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **wanted["environment"]},
                start_new_session=True,
            )
        self.running[name] = process
        (self.folder / "pids" / name).write_text(str(process.pid))

    def _forget(self, name: str) -> None:
        del self.running[name]
        (self.folder / "pids" / name).unlink(missing_ok=True)


def remove_cgroups(prefix: str) -> None:
    """Remove the cgroups that nodes left behind; processes may still be dying in them."""
    for _ in range(100):
        tops = [*CGROUPS.glob(f"{prefix}*"), *CGROUPS.glob(f"*/{prefix}*")]
        if not tops:
            return
        for top in tops:
            for group in [*sorted(top.rglob("*/"), reverse=True), top]:
                try:
                    group.rmdir()
                except OSError:
                    continue
        time.sleep(0.05)


def remove_traces(folder: Path) -> None:
    """Remove what outlives the processes; a dying socket may hold a network and its link."""
    for link in (folder / "links").iterdir():
        subprocess.run(["ip", "link", "delete", link.name], check=False)
    remove_cgroups(folder.name)
    shutil.rmtree(folder)


def keep(folder: Path) -> None:
    """Reconcile until the lease is free, then leave nothing behind."""
    keeper = Keeper(folder)
    fcntl.flock(
        os.open(folder / "keeper", os.O_RDWR), fcntl.LOCK_EX
    )  # until this process has ended
    lease = os.open(folder / "lease", os.O_RDWR)
    while not is_free(lease):
        keeper.reconcile()
        time.sleep(PERIOD_SECONDS)
    keeper.stop_all()
    remove_traces(folder)


def is_free(lease: int) -> bool:
    """Take the lease if nobody holds it; then nobody can join any more."""
    try:
        fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # the lease says when to stop
    keep(Path(sys.argv[1]))
