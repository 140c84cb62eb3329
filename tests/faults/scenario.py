"""One sweep under faults, from `deployer up` to the proof: real processes, kept going.

`deployer up` and the embedded backend are started again when they have been killed, as a user or an
init system would; all else is the product's own work.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from deployer.backend.data_folder import is_served, read_key, read_url
from tests.faults import trainers
from tests.faults.clock import Clock
from tests.faults.grids import WHOLE, Grid
from tests.faults.processes import find_processes, kill_all, wait_until_gone
from tests.faults.proof import RecordReader, find_problems, list_attempts, read_causes
from tests.faults.proxy import FaultProxy
from tests.faults.steps import Steps
from tests.forked import run_forked

POLL_SECONDS = 0.2

# Longer than the SDK's pauses while it comes back from an outage, and than any pause of ours.
WAITING_TIMES = {
    "DEPLOYER_BACKEND_SILENCE_SECONDS": "12",
    "DEPLOYER_BACKEND_EXIT_RECORD_SECONDS": "5",
}


@dataclass(frozen=True)
class UpEnd:
    """How one `deployer up` ended; `exit_code` is negative for a signal."""

    exit_code: int
    out: str
    err: str


@dataclass
class Scenario:
    """A project folder, its state folder, a backend, perhaps a proxy, and a kept `deployer up`.

    `settings` are added to the environment of everything that is started. Trainers wait at the
    step `hold`.
    """

    folder: Path
    seed: int = 0
    script: str = trainers.RESUMING
    grid: Grid = WHOLE
    replicas: int = 2
    retries: int = 1
    proxied: bool = False
    hold: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    ends: list[UpEnd] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __enter__(self) -> Scenario:
        self.project.mkdir(parents=True, exist_ok=True)
        (self.project / "train.py").write_text(self.script)
        (self.project / "sweep.yaml").write_text(self.grid.text)
        self.steps.hold_at(self.hold)
        self._over = threading.Event()
        self._starting = threading.Lock()
        self._proxy: FaultProxy | None = None
        self._up: subprocess.Popen[str] | None = None
        self._keep_backend()
        if self.proxied:
            self._proxy = FaultProxy(self.client.url, seed=self.seed).__enter__()
        self._keepers = [
            threading.Thread(target=self._repeat, args=(work,), daemon=True)
            for work in (self._keep_backend, self._keep_up)
        ]
        for keeper in self._keepers:
            keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_keepers()
        if self._up and self._up.poll() is None:
            self._up.kill()
        kill_all(self.state)
        if self._proxy:
            self._proxy.__exit__(None, None, None)

    @property
    def project(self) -> Path:
        """The user's project folder."""
        return self.folder / "project"

    @property
    def state(self) -> Path:
        """The state folder, by which all processes of the test are found."""
        return self.folder / "state"

    @property
    def steps(self) -> Steps:
        """What the trainers have done, and where they are to wait."""
        return Steps(self.project)

    @property
    def clock(self) -> Clock:
        """The clock of the backend."""
        return Clock(self.folder / "clock")

    @property
    def proxy(self) -> FaultProxy:
        """The proxy between everybody and the backend."""
        assert self._proxy is not None, "this scenario has no proxy"
        return self._proxy

    @property
    def client(self) -> RecordReader:
        """The way to the backend that no fault lies on."""
        data = self.state / "backend"
        url = read_url(data)
        assert url is not None, "the backend was never served"
        return RecordReader(url, read_key(data))

    @property
    def ended(self) -> bool:
        """Tell whether a `deployer up` has come to an end of its own."""
        return bool(self.ends) and not _was_killed(self.ends[-1])

    @property
    def environment(self) -> dict[str, str]:
        """What every process of the test inherits."""
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("WANDB_", "DEPLOYER_"))
        }
        way: dict[str, str] = {}
        if self._proxy:
            way = {"WANDB_BASE_URL": self._proxy.url, "WANDB_API_KEY": self.client.key}
        return {
            **clean,
            **WAITING_TIMES,
            **self.clock.environment,
            "DEPLOYER_HOME": str(self.state),
            "USER": "tester",
            "WANDB_ERROR_REPORTING": "false",
            **way,
            **self.settings,
        }

    @property
    def sweep_path(self) -> str:
        """The path of the sweep that `up` made, empty until it has said so."""
        said = re.search(r"(?:created|continuing) sweep (\S+)", self.said)
        return said.group(1) if said else ""

    @property
    def said(self) -> str:
        """All that the last `deployer up` has printed."""
        return "\n".join(self._texts()) if self._text_files()[1].exists() else ""

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another `deployer` command in the project to its end."""
        return run_forked(words, self.project, self.environment)

    def wait_for_step(self, step: int) -> psutil.Process:
        """Wait until a trainer waits at a step, and return it."""
        found = self.steps.find_waiting
        self.wait_for(lambda: found(step) or self.ended, f"a trainer at step {step}", 90)
        waiting = found(step)
        assert waiting, f"up ended before a trainer was at step {step}\n{self.describe()}"
        return waiting[-1]

    def wait_for(self, happened: Callable[[], object], what: str, seconds: float = 60.0) -> None:
        """Wait for a state; fails with its name and all that was said if it does not come."""
        deadline = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < deadline, f"waited in vain for {what}\n{self.describe()}"
            time.sleep(POLL_SECONDS)

    def wait_for_end(self, seconds: float = 150.0) -> int:
        """Wait until a `deployer up` has come to an end of its own, and return its exit code.

        One that finds the sweep finished has nothing to watch, and that is a good end, too.
        """
        self.wait_for(lambda: self.ended, "the end", seconds)
        end = self.ends[-1]
        return 0 if len(self.ends) > 1 and " is FINISHED: " in end.err else end.exit_code

    def prove(self, steps: int = trainers.STEPS) -> None:
        """Check the promise against the server's raw data, then that `down` leaves nothing."""
        problems = find_problems(
            self.client.read_runs(self.sweep_path), self.grid.configurations, steps
        )
        assert not problems, "\n".join([*problems, self.describe()])
        self.end()

    @property
    def causes(self) -> set[str]:
        """Why attempts ended, as the server has it."""
        return read_causes(self.state / "backend" / "backend.sqlite")

    def end(self) -> None:
        """End everything by `deployer down --all`; fails if a process outlives it."""
        self._stop_keepers()
        done = self.run("down", "--all")
        assert done.returncode == 0, done.stderr
        left = wait_until_gone(self.state)
        assert not left, "left after down:\n" + "\n".join(str(one) for one in left)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Start nothing again for as long as the `with` block lasts."""
        with self._starting:
            yield

    def note(self, text: str) -> None:
        """Remember what happened, for the description of a failure."""
        self.notes.append(f"{time.strftime('%H:%M:%S')} {text}")

    def describe(self) -> str:
        """Return what helps to understand a failure."""
        with contextlib.suppress(OSError):
            logs = sorted(self.state.glob("agents/*/log"))
            tails = [f"--- {log.parent.name}\n{_tail(log.read_text())}" for log in logs]
            backend = _tail((self.state / "backend" / "backend.log").read_text())
            living = "\n".join(str(one) for one in find_processes(self.state))
            attempts = list_attempts(self.state / "backend" / "backend.sqlite")
            parts = [f"--- up\n{_tail(self.said)}", *tails, f"--- backend\n{backend}", living]
            return "\n".join([*parts, "--- attempts", *attempts, "--- notes", *self.notes])
        return self.said

    def _repeat(self, work: Callable[[], None]) -> None:
        while not self._over.wait(POLL_SECONDS):
            with self._starting:
                work()

    def _stop_keepers(self) -> None:
        self._over.set()
        for keeper in self._keepers:
            keeper.join()

    def _keep_backend(self) -> None:
        if not is_served(self.state / "backend"):
            began = time.monotonic()
            done = self.run("backend", "up")
            self.note(f"backend up took {time.monotonic() - began:.1f} s {done.stderr[-300:]}")

    def _keep_up(self) -> None:
        """Start `deployer up`, again when it was killed, and note how it ended."""
        if self._up is None:
            self._start_up()
        if self.ended or self._up is None or self._up.poll() is None:
            return
        self.ends.append(UpEnd(self._up.returncode, *self._texts()))
        self.note(f"up ended with {self._up.returncode}")
        if _was_killed(self.ends[-1]):
            self._start_up()

    def _start_up(self) -> None:
        out, err = self._text_files()
        command = [sys.executable, "-m", "deployer", "up", "sweep.yaml", "--plain"]
        with out.open("w") as stdout, err.open("a") as stderr:
            self._up = subprocess.Popen(
                [*command, "--replicas", str(self.replicas), "--retries", str(self.retries)],
                cwd=self.project,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                text=True,
            )

    def _text_files(self) -> tuple[Path, Path]:
        return self.folder / "up.out", self.folder / "up.err"

    def _texts(self) -> tuple[str, str]:
        out, err = self._text_files()
        return out.read_text(), err.read_text()


def _was_killed(end: UpEnd) -> bool:
    return end.exit_code < 0 or end.exit_code in (128 + signal.SIGINT, 128 + signal.SIGTERM)


def _tail(text: str, lines: int = 25) -> str:
    """Return the last lines, without what the SDK says in every run."""
    return "\n".join([one for one in text.splitlines() if not one.startswith("wandb: ")][-lines:])
