"""What every call passes: the log, the armed faults, and the end of a client at its n-th call."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import psutil

from tests.gke.cloud_faults import UNAVAILABLE, Fault

T = TypeVar("T")

LOOKS = 40
READING = ("Get", "List")
READING_REST = (".aggregatedList", ".get", ".list", ".wait")


@dataclass(frozen=True)
class Call:
    """One call as it came in: its name, and the path of what it is about."""

    name: str
    path: str

    @property
    def mutating(self) -> bool:
        """Tell whether it asks for a change."""
        return not self.name.startswith(READING) and not self.name.endswith(READING_REST)


@dataclass
class _Armed:
    """A fault that waits for its calls: the `left`-th and the `times - 1` after it."""

    call: str
    fault: Fault
    path: str
    nth: int
    times: float
    seen: int = 0

    def strikes(self, call: Call) -> bool:
        if self.call != call.name or self.path not in call.path:
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.times


@dataclass
class Killing:
    """The end of whoever makes the n-th call of a name from now on; `pid` is who it was."""

    nth: int
    when: Literal["before", "after"]
    name: str = ""
    signal: signal.Signals = signal.SIGKILL
    seen: int = 0
    call: Call | None = None
    pid: int | None = None


@dataclass
class Gate:
    """Lets calls in, one after another where they change something."""

    calls: list[Call] = field(default_factory=list)
    killing: Killing | None = None
    ports: set[int] = field(default_factory=set)
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.RLock = field(default_factory=threading.RLock)
    _armed: list[_Armed] = field(default_factory=list)

    def arm(self, call: str, fault: Fault, path: str, nth: int, times: float) -> None:
        """Let the nth such call from now on, and times - 1 after it, meet the fault."""
        with self.lock:
            self._armed.append(_Armed(call, fault, path, nth, times))

    def disarm(self) -> None:
        """Forget every fault."""
        with self.lock:
            self._armed.clear()

    def strike(self, call: Call) -> Fault | None:
        """Return the fault that this call meets; every armed one counts it."""
        with self.lock:
            return next((a.fault for a in list(self._armed) if a.strikes(call)), None)

    def enter(self, call: Call, port: int, effect: Callable[[Fault | None], T]) -> T:
        """Carry out a call of the client at this port.

        The effect gets the fault that its operation is to end with. Raises the fault that the
        client shall see.
        """
        with self.lock:
            self.calls.append(call)
            due = self._due(call)
            fault = self.strike(call)
        if due == "before":
            self._kill(port)
        if fault is not None and fault.when == "before":
            self.refuse(fault)
        with self.lock:
            result = effect(fault if fault is not None and fault.when == "operation" else None)
        if due == "after":
            self._kill(port)
        if fault is not None and fault.when == "after":
            self.refuse(fault)
        return result

    def refuse(self, fault: Fault) -> None:
        """Raise a fault, for a silent one after the client must have given up."""
        if fault.hang:
            self.closing.wait(60)
        raise fault

    def _due(self, call: Call) -> str:
        if self.killing is None or self.killing.name not in ("", call.name):
            return ""
        self.killing.seen += 1
        if self.killing.seen != self.killing.nth:
            return ""
        self.killing.call = call
        return self.killing.when

    def _kill(self, port: int) -> None:
        """Send the signal to whoever the connection belongs to; the dead hear no answer."""
        pid = find_client(port, self.ports)
        assert pid is not None, f"no process has the local port {port}"
        assert pid != os.getpid(), "the call came from the tests themselves"
        assert self.killing is not None
        self.killing.pid = pid
        os.kill(pid, self.killing.signal)
        if self.killing.signal == signal.SIGKILL:
            raise UNAVAILABLE


def find_client(port: int, servers: Collection[int]) -> int | None:
    """Return the process whose connection to one of the servers has this local port.

    Processes come and go while they are looked through, so one look may miss it.
    """
    for _ in range(LOOKS):
        for connection in psutil.net_connections(kind="tcp"):
            here, there = connection.laddr, connection.raddr
            if here and there and here.port == port and there.port in servers and connection.pid:
                return connection.pid
        time.sleep(0.05)
    return None
