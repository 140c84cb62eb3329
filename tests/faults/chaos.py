"""Kills random processes of one test, every few seconds, for a while."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.faults.processes import Found, Kind, find_processes

KINDS: tuple[Kind, ...] = (
    "trainer",
    "wandb-core",
    "agent",
    "supervisor",
    "backend",
)
LONGEST_PAUSE_SECONDS = 3.0  # of a process that SIGSTOP holds; shorter than any waiting time
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Kill:
    """One entry of the journal; `at` is seconds since the chaos began."""

    at: float
    kind: Kind
    process_id: int
    signal: signal.Signals

    def __str__(self) -> str:
        return f"{self.at:.1f} s: {self.signal.name} to {self.kind} {self.process_id}"


class Chaos:
    """Sends signals from a thread of its own until it has sent `kills`, or the `with` block ends.

    `seed` decides kind, process, signal and time, as far as the processes themselves allow.
    SIGSTOP is followed by SIGCONT after up to three seconds.
    """

    def __init__(
        self,
        state_folder: Path,
        seed: int,
        kinds: Sequence[Kind] = KINDS,
        signals: Sequence[signal.Signals] = (signal.SIGKILL,),
        kills: int = 6,
        every_seconds: tuple[float, float] = (2.0, 4.0),
    ) -> None:
        self.journal: list[Kill] = []
        self._state_folder = state_folder
        self._random = random.Random(seed)
        self._kinds = sorted(kinds)
        self._signals = tuple(signals)
        self._kills = kills
        self._every_seconds = every_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._began = 0.0

    def __enter__(self) -> Chaos:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def done(self) -> bool:
        """Tell whether all kills have been made."""
        return len(self.journal) >= self._kills

    def _work(self) -> None:
        while not self.done and not self._over.wait(self._random.uniform(*self._every_seconds)):
            self._kill_one()

    def _kill_one(self) -> None:
        """Hit one process; a kind that nobody is of at the moment is waited for."""
        kind = self._random.choice(self._kinds)
        number = self._random.choice(self._signals)
        place = self._random.random()
        while not self._over.is_set():
            living = [one for one in find_processes(self._state_folder) if one.kind == kind]
            if living and self._send(living[int(place * len(living))], number):
                return
            self._over.wait(POLL_SECONDS)

    def _send(self, victim: Found, number: signal.Signals) -> bool:
        try:
            victim.process.send_signal(number)
        except psutil.NoSuchProcess:
            return False
        at = time.monotonic() - self._began
        self.journal.append(Kill(at, victim.kind, victim.process.pid, number))
        if number == signal.SIGSTOP:
            self._over.wait(self._random.uniform(0.5, LONGEST_PAUSE_SECONDS))
            self._wake(victim)
        return True

    @staticmethod
    def _wake(victim: Found) -> None:
        try:
            victim.process.send_signal(signal.SIGCONT)
        except psutil.NoSuchProcess:
            return
