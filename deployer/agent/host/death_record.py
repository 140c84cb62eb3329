"""Why a supervisor died: its death record, and the kernel's out-of-memory kills.

A supervisor keeps a small file that tells its successor why it died: nothing else survives SIGKILL.
The causes are the server's causes for the end of an attempt.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import deque
from typing import Deque, Iterator, NamedTuple, Optional, Tuple

GROUPS = "sys/fs/cgroup"
INTERRUPTED = "interrupted"  # on request
SIGNAL = "signal"
OUT_OF_MEMORY = "OOM"
NODE = "node"  # the machine rebooted, or the agent moved to another one
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# The agent polls its run every 5 s, later while its server is unreachable. A limit, since another
# agent's run in the same control group may be killed for lack of memory at another time.
RECENT_SECONDS = 30.0


# Counts how often the kernel has killed a process for lack of memory. Sources: `memory.events`
# in the kernel's cgroup-v2.rst, `memory.oom_control` in its cgroup-v1/memory.rst, `oom_kill` in
# /proc/vmstat. A control group of version 1 counts only its own processes, so read ours, which
# contains the agent and its runs.


class MemoryKills(NamedTuple):
    """Out-of-memory kills in our control group and on the machine; None without a counter."""

    group: Optional[int]
    machine: Optional[int]

    @property
    def nearest(self) -> Optional[int]:
        """Return the group's count, or the machine's if the group has none."""
        return self.machine if self.group is None else self.group


def count_memory_kills(root: str = "/") -> MemoryKills:
    """Read both counters; `root` is the folder of /proc and /sys."""
    counts = (_read_count(path) for path in _group_files(root))
    group = next((count for count in counts if count is not None), None)
    return MemoryKills(group, _read_count(f"{root}proc/vmstat"))


def read_group(root: str = "/") -> str:
    """Return the control groups of this process, which differ between containers."""
    try:
        with open(f"{root}proc/self/cgroup", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _group_files(root: str) -> Iterator[str]:
    for line in read_group(root).splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            mount, name = f"{root}{GROUPS}/memory", "memory.oom_control"
        elif not controllers:
            mount, name = f"{root}{GROUPS}", "memory.events"
        else:
            continue
        yield f"{mount}{path.rstrip('/')}/{name}"
        # In a container, the path may be the host's although only the container's group is mounted.
        yield f"{mount}/{name}"


def _read_count(path: str) -> Optional[int]:
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.split() for line in file]
    except OSError:
        return None
    return next((int(words[1]) for words in lines if words[:1] == ["oom_kill"]), None)


class DeathRecord:
    """Watches the kernel's counters for one supervisor, and keeps its file up to date."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._said: Optional[str] = None
        self._counts: Deque[Tuple[float, int]] = deque()
        self._where = {"boot": _read_boot(), "group": read_group()}
        self._saved = ""

    def look(self) -> None:
        """Read the counters; called twice a second while the agent lives."""
        kills = count_memory_kills().nearest
        now = time.monotonic()
        if kills is not None:
            self._counts.append((now, kills))
        while len(self._counts) > 1 and self._counts[0][0] < now - RECENT_SECONDS:
            self._counts.popleft()
        self._save({**self._where, "kills": kills, "said": self._said})

    def judge(self) -> str:
        """Return the cause of a process's recent death by signal: OUT_OF_MEMORY or SIGNAL."""
        self.look()
        grown = bool(self._counts) and self._counts[-1][1] > self._counts[0][1]
        return OUT_OF_MEMORY if grown else SIGNAL

    def say(self, cause: str) -> None:
        """Record why this supervisor ends its run, in case it cannot report to the server."""
        self._said = cause
        self.look()

    def _save(self, content: object) -> None:
        text = json.dumps(content)
        if text == self._saved:
            return
        with contextlib.suppress(OSError):
            with open(f"{self._path}.new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(f"{self._path}.new", self._path)
            self._saved = text


def judge_predecessor(path: str) -> str:
    """Return from its file why a supervisor died, or why it ended its run.

    NODE if there is no file, since then its folder is gone, too.
    """
    try:
        with open(path, encoding="utf-8") as file:
            left = json.load(file)
        if left["said"]:
            return str(left["said"])
        if left["boot"] != _read_boot():
            return NODE
        # Another control group has another counter, which cannot be compared.
        if left["group"] != read_group():
            return SIGNAL
        grown = (count_memory_kills().nearest or 0) > (left["kills"] or 0)
        return OUT_OF_MEMORY if grown else SIGNAL
    except (OSError, ValueError, LookupError, TypeError):
        return NODE


def _read_boot() -> str:
    try:
        with open(BOOT_ID, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
