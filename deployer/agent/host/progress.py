"""Tells whether a starting agent makes progress, however slowly.

Time alone says nothing: on a full node, or with an image whose files come over the network, what
takes seconds elsewhere takes many minutes.
"""

import os
from typing import Callable, Dict, NamedTuple, Tuple

from .processes import Process, list_descendants, read_process

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
# Between two looks. A process that sleeps and now and then looks around uses less of both.
LEAST_CPU_SECONDS = 0.05
LEAST_BYTES = 4096


class Effort(NamedTuple):
    """What a tree of processes has used so far."""

    cpu_seconds: float
    bytes_read: int


class Progress:
    """Compares one look with the last: CPU used, bytes read, lines logged, processes that wait.

    `read_log_size` tells how long the agent's log is.
    """

    def __init__(self, agent: int, read_log_size: Callable[[], int]) -> None:
        self._agent = agent
        self._read_log_size = read_log_size
        self._efforts: Dict[int, Effort] = {}
        self._log_size = read_log_size()

    def look(self) -> bool:
        """Tell whether the agent has made progress since the last look."""
        found = read_process(self._agent)
        tree = [*([found] if found else []), *list_descendants(self._agent)]
        efforts = {process.id: read_effort(process.id) for process in tree}
        log_size = self._read_log_size()
        moved = self._compare(efforts) or log_size != self._log_size
        self._efforts, self._log_size = efforts, log_size
        return moved or any(map(is_kept_waiting, tree))

    def _compare(self, efforts: Dict[int, Effort]) -> bool:
        if efforts.keys() != self._efforts.keys():
            return True
        spent = [_subtract(efforts[key], self._efforts[key]) for key in efforts]
        return (
            sum(cpu for cpu, _ in spent) >= LEAST_CPU_SECONDS
            or sum(read for _, read in spent) >= LEAST_BYTES
        )


def is_kept_waiting(process: Process) -> bool:
    """Tell a process that would go on if it got a CPU, or whose file is on its way."""
    return process.state in "RD"


def read_effort(process_id: int) -> Effort:
    """Read what a process has used; nothing if it is gone or may not be looked at."""
    return Effort(_read_cpu_seconds(process_id), _read_bytes(process_id))


def _read_cpu_seconds(process_id: int) -> float:
    try:
        with open(f"/proc/{process_id}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / CLOCK_TICKS


def _read_bytes(process_id: int) -> int:
    """Add up what it asked for and what came from a disk: files that are mapped, too."""
    try:
        with open(f"/proc/{process_id}/io", encoding="ascii") as file:
            counts = dict(line.split(": ") for line in file)
    except (OSError, ValueError):
        return 0
    return int(counts.get("rchar", 0)) + int(counts.get("read_bytes", 0))


def _subtract(now: Effort, before: Effort) -> Tuple[float, int]:
    return now.cpu_seconds - before.cpu_seconds, now.bytes_read - before.bytes_read
