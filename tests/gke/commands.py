"""The command line as a user's shell starts it, led to the cloud of the tests.

Google's clients take seconds to import, and the tests' process has done so. It cannot be forked
once it has called them, so a nursery is forked before that: every command is a process of its own,
forked from the nursery, with its own environment, folder and end.
"""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tests.forked import be_deployer, load_commands
from tests.gke.cloud import Cloud

# None of the caller's settings: what a fresh machine has.
KEPT = ("PATH", "LANG", "TMPDIR")
TIMEOUT_SECONDS = 120
KILLED = -signal.SIGKILL


class Nursery:
    """Starts commands; `close` ends it, and so does the end of the process that made it."""

    def __init__(self) -> None:
        (orders, self._orders), (self._ends, ends) = os.pipe(), os.pipe()
        self._process_id = os.fork()
        if self._process_id == 0:
            os.close(self._orders)
            os.close(self._ends)
            _serve_orders(orders, ends)
        os.close(orders)
        os.close(ends)

    def run(self, order: Mapping[str, Any]) -> int:
        """Run one command to its end and return its exit code, negative for a signal's number."""
        os.write(self._orders, json.dumps(order).encode() + b"\n")
        end = os.read(self._ends, 16)
        assert end, "the process that forks has ended"
        return int(end)

    def start(self, order: Mapping[str, Any], ended: Path) -> None:
        """Start a command beside others; its exit code is written to a file at its end."""
        self.run({**order, "ended": str(ended)})

    def close(self) -> None:
        """End the process that forks."""
        os.close(self._orders)
        os.close(self._ends)
        os.waitpid(self._process_id, 0)


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
        order = self.build_order(arguments, self.folder / "home")
        code = self.nursery.run(order)
        out, err = (Path(order[name]).read_text() for name in ("stdout", "stderr"))
        return code, out, err

    def build_order(self, arguments: Sequence[str], home: Path, **more: str) -> dict[str, Any]:
        """Return what the nursery is asked for, with more variables; outputs go to the home."""
        home.mkdir(parents=True, exist_ok=True)
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return {
            "arguments": arguments,
            "folder": str(self.folder),
            "environment": {**kept, **self.cloud.environment(), "HOME": str(home), **more},
            **{name: str(home / name) for name in ("stdout", "stderr")},
        }


def _serve_orders(orders: int, ends: int) -> NoReturn:
    """Fork a command for each order and tell how it ended; end with the orders."""
    try:
        load_commands()
        import_module("google.cloud.compute_v1")
        import_module("google.cloud.container_v1")
        import_module("kubernetes")
        with open(orders) as lines:
            for line in lines:
                process_id = os.fork()
                if process_id == 0:
                    _serve_order(json.loads(line))
                status = os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])
                os.write(ends, f"{status}\n".encode())
    except BaseException:  # it must not go on as its parent
        traceback.print_exc()
    finally:
        os._exit(0)


def _serve_order(order: Mapping[str, Any]) -> NoReturn:
    if "ended" in order and os.fork() == 0:
        process_id = os.fork()
        if process_id:
            code = os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])
            Path(order["ended"]).write_text(f"{code}\n")
            os._exit(0)
    elif "ended" in order:
        os._exit(0)
    _become(order)


def _become(order: Mapping[str, Any]) -> NoReturn:
    """Be the command, as if a shell had started it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # not the handler of the test's own limit
    signal.alarm(TIMEOUT_SECONDS)
    written = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
    outputs = (os.open(order[name], written, 0o600) for name in ("stdout", "stderr"))
    ends = (os.open(os.devnull, os.O_RDONLY), *outputs)
    be_deployer(order["arguments"], Path(order["folder"]), order["environment"], ends)
