"""The command line as a user's shell starts it, led to the cloud of the tests.

Google's clients take seconds to import, so a nursery has imported them once: every command is a
process of its own, forked from it, with its own environment, folder and end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployer.__main__ import main
from tests.gke.cloud import Cloud

# None of the caller's settings: what a fresh machine has.
KEPT = ("PATH", "LANG", "TMPDIR")
TIMEOUT_SECONDS = 120
KILLED = -signal.SIGKILL


class Nursery:
    """Starts commands; `close` ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.gke.commands"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, order: Mapping[str, Any]) -> int:
        """Run one command to its end and return its exit code, negative for a signal's number."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End the process that forks."""
        self._process.kill()
        self._process.communicate()


@dataclass(frozen=True)
class Machine:
    """A user's machine with an empty HOME, and a folder in which commands are typed."""

    nursery: Nursery
    cloud: Cloud
    folder: Path

    def run(self, *arguments: str, code: int | Iterable[int] = 0) -> tuple[str, str]:
        """Run `deployer` to its end and return stdout and stderr; its exit code is one of these."""
        actual, out, err = self.try_run(*arguments)
        expected = (code,) if isinstance(code, int) else tuple(code)
        assert actual in expected, f"{' '.join(arguments)}: exit {actual}\n{out}\n{err}"
        return out, err

    def try_run(self, *arguments: str) -> tuple[int, str, str]:
        """Run `deployer` to its end, however that is."""
        home = self.folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        written = {name: str(home / name) for name in ("stdout", "stderr")}
        order = {
            "arguments": arguments,
            "folder": str(self.folder),
            "environment": {**kept, **self.cloud.environment(), "HOME": str(home)},
            **written,
        }
        code = self.nursery.run(order)
        out, err = (Path(path).read_text() for path in written.values())
        return code, out, err


def serve_orders() -> None:
    """Import what commands need; then fork one for each order on stdin and tell how it ended."""
    import google.cloud.compute_v1
    import google.cloud.container_v1
    import kubernetes

    del google, kubernetes
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(json.loads(line))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


def _become(order: Mapping[str, Any]) -> None:
    """Be the command, as if a shell had started it; never returns."""
    signal.alarm(TIMEOUT_SECONDS)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(order[name], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), number)
    sys.argv = ["deployer", *order["arguments"]]
    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # it must not go on as its parent
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    serve_orders()
