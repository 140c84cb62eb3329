"""Waiting for another system: the timeouts of requests, and which answers to retry."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from selectors import EVENT_READ, DefaultSelector
from typing import Any, TypeVar

LOG = logging.getLogger(__name__)

TIMEOUTS_SECONDS = (5.0, 30.0)  # to connect; between two chunks of an answer
SILENCE_SECONDS = 1.2  # together with a command's start less than 2
SHORTEST_SECONDS = 0.5  # no message for shorter waits
ALL_SECONDS = 30.0  # of all unanswered requests of a command
EXAMINATION_SECONDS = 15.0  # the same for `doctor`, which reports a slow server
LAST_SECONDS = 2.0  # of each later request
REPEAT_SECONDS = 60.0  # between two messages about the same system
TRIES = 4
CONFIRM_SECONDS = 3.0  # a single read may be stale
FIRST_PAUSE_SECONDS = 0.5

T = TypeVar("T")
E = TypeVar("E", bound=Exception)
NO_ANSWER = 0
OWN_VERDICT = -1  # our own final verdict, without a server
# Rejected before anything was done, so even non-idempotent requests can be retried. 507: disk full.
BUSY_STATUSES = (429, 503, 507)
HOPELESS_STATUSES = (501, 505)  # not supported by the server, so retries are useless
# gRPC's words, as Google has them. After these it is unknown whether the request was executed.
UNCERTAIN_REASONS = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "CANCELLED")
PASSING_REASONS = frozenset((*UNCERTAIN_REASONS, "RESOURCE_EXHAUSTED", "ABORTED"))


class Waiting:
    """The waits of a command. As a library it logs nothing, and may wait without limit.

    Logs one message about each slow system: at most one a minute, and one until it answers.
    """

    def __init__(self) -> None:
        self._tells = False
        self._endless, self._all_seconds = True, ALL_SECONDS
        self._began_at = 0.0
        self.printed = False  # this command printed any message
        self._in_vain: dict[str, float] = {}  # seconds without an answer
        self._told_at: dict[str, float] = {}
        self._unanswered: set[str] = set()

    def begin_command(self) -> None:
        """Log waits, and limit the total time of unanswered requests."""
        self._tells, self._endless, self._in_vain = True, False, {}
        self._all_seconds = ALL_SECONDS
        self._began_at, self.printed = time.monotonic(), False

    def end_command(self) -> None:
        """Log nothing from now on, and wait without limit, like the library."""
        self._tells, self._endless = False, True

    def begin_examination(self) -> None:
        """Wait less from now on: `doctor` reports missing answers."""
        self._all_seconds = EXAMINATION_SECONDS

    def begin_watching(self) -> None:
        """Wait without limit from now on: the sweep runs even if servers do not answer."""
        self._endless = True

    @property
    def gives_up(self) -> bool:
        return self._left_seconds <= 0

    def limit(self, timeouts_seconds: tuple[float, float]) -> tuple[float, float]:
        """Return a request's timeouts: shorter ones once the limit is nearly reached."""
        connect, read = timeouts_seconds
        left = max(LAST_SECONDS, self._left_seconds)
        return min(connect, left), min(read, left)

    @property
    def _left_seconds(self) -> float:
        return inf if self._endless else self._all_seconds - sum(list(self._in_vain.values()))

    @contextmanager
    def waiting_for(self, what: str) -> Iterator[None]:
        """Log `waiting for WHAT` if the block takes longer than the silence."""
        if not self._tells:
            yield
            return
        began = time.monotonic()
        # The first message of a command counts from its start, including imports.
        silent = 0.0 if self.printed else began - self._began_at
        seconds = max(SHORTEST_SECONDS, SILENCE_SECONDS - silent)
        timer = threading.Timer(seconds, self._announce, (what,))
        timer.daemon = True
        timer.start()
        try:
            yield
            self._unanswered.discard(what)
            self._in_vain.pop(what, None)
        except Exception:
            seconds = time.monotonic() - began
            if seconds > SILENCE_SECONDS:
                self.note(what, seconds)
            raise
        finally:
            timer.cancel()

    def note(self, what: str, seconds: float) -> None:
        """Add seconds that brought no answer."""
        self._in_vain[what] = self._in_vain.get(what, 0.0) + seconds

    def _announce(self, what: str) -> None:
        now = time.monotonic()
        recent = now - self._told_at.get(what, -REPEAT_SECONDS) < REPEAT_SECONDS
        if not self._tells or recent or what in self._unanswered:
            return
        self._told_at[what] = now
        self._unanswered.add(what)
        LOG.info(f"waiting for {what}")


class Confirmation:
    """Returns True for a condition that held for 3 s without a break."""

    def __init__(self) -> None:
        self._since: float | None = None

    def holds(self, so: bool, now: float) -> bool:
        """Record the condition at a time in seconds; return True once it is confirmed."""
        if not so:
            self._since = None
        elif self._since is None:
            self._since = now
        return self._since is not None and now - self._since >= CONFIRM_SECONDS


def double_wait(_failure: Exception, tries: int) -> float:
    """Return a pause that doubles with each try, from half a second, with jitter."""
    return float(FIRST_PAUSE_SECONDS * 2 ** (tries - 1) * (0.75 + os.urandom(1)[0] / 512))


def retry(
    ask: Callable[[], T],
    kind: type[E],
    may_pass: Callable[[E], bool],
    sleep: Callable[[float], None] = time.sleep,
    choose_wait: Callable[[E, int], float] = double_wait,
    tries: int = TRIES,
) -> T:
    """Call `ask` until it succeeds, at most `tries` times, with a pause after each failure.

    Raises a failure for which `may_pass` is False, or the last one.
    """
    for tried in range(1, tries):
        try:
            return ask()
        except kind as failure:
            if not may_pass(failure):
                raise
            sleep(choose_wait(failure, tried))
    return ask()


COMMAND = Waiting()
waiting_for = COMMAND.waiting_for


def run_program(
    words: Sequence[str], silent_seconds: float, what: str, given: bytes = b"", **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a program; kill it and its descendants if it is silent for too long.

    `what` is its name for the user, `given` its input. Raises TimeoutExpired, OSError.
    """
    from tempfile import TemporaryFile  # `deployer --help` starts nothing

    said = {1: b"", 2: b""}
    with TemporaryFile() as file, waiting_for(what):
        file.write(given)
        file.seek(0)
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(words, stdin=file, **options) as process:
            for number, block in read_until_silent(process, silent_seconds):
                said[number] += block
    return subprocess.CompletedProcess(words, process.returncode, said[1], said[2])


def read_until_silent(
    process: subprocess.Popen[bytes], silent_seconds: float
) -> Iterator[tuple[int, bytes]]:
    """Yield chunks of a program's output with their stream, until it closes them.

    If it prints nothing for too long, kills it and its descendants and raises TimeoutExpired.
    """
    with DefaultSelector() as selector:
        for number, pipe in ((1, process.stdout), (2, process.stderr)):
            if pipe:
                selector.register(pipe, EVENT_READ, number)
        while selector.get_map():
            ready = selector.select(silent_seconds)
            if not ready:
                if process.poll() is not None:
                    return  # a daemon it started still holds its output open
                _kill_tree(process)
                raise subprocess.TimeoutExpired(process.args, silent_seconds)
            for key, _ in ready:
                block = os.read(key.fd, 1 << 16)
                if block:
                    yield key.data, block
                else:
                    selector.unregister(key.fileobj)


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    import psutil

    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()


PASSING_STATUSES = (
    NO_ANSWER,
    408,
    429,
    # Proxies have their own codes, up to Cloudflare's 530.
    *(status for status in range(500, 600) if status not in HOPELESS_STATUSES),
)


# Which answers of a server to retry: one rule for every client; pure. The supervisor, which imports
# nothing of deployer, has a copy; a test compares them.


def is_passing(status: int) -> bool:
    """Return True if an HTTP status may be transient; 0 means no answer at all."""
    return status in PASSING_STATUSES
