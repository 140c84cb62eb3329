"""Counts how often the kernel has killed a process because memory ran out.

Sources: `memory.events` in the kernel's cgroup-v2.rst, `memory.oom_control` in its
cgroup-v1/memory.rst, `oom_kill` in /proc/vmstat. A control group of version 1 counts its own
processes alone, so ours is asked: agent and runs are in it.
"""

from typing import Iterator, NamedTuple, Optional

GROUPS = "sys/fs/cgroup"


class MemoryKills(NamedTuple):
    """The counts in our control group and of the whole machine, None where there is no counter."""

    group: Optional[int]
    machine: Optional[int]

    @property
    def nearest(self) -> Optional[int]:
        """Return the count that says most of us: a group without a limit may have none."""
        return self.machine if self.group is None else self.group


def count_memory_kills(root: str = "/") -> MemoryKills:
    """Read both counters; `root` is where /proc and /sys lie."""
    counts = (_read_count(path) for path in _group_files(root))
    group = next((count for count in counts if count is not None), None)
    return MemoryKills(group, _read_count(f"{root}proc/vmstat"))


def read_group(root: str = "/") -> str:
    """Return the control groups of this process, which tell one container from another."""
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
        # In a container, the path may be the host's while only the container's group is mounted.
        yield f"{mount}/{name}"


def _read_count(path: str) -> Optional[int]:
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.split() for line in file]
    except OSError:
        return None
    return next((int(words[1]) for words in lines if words[:1] == ["oom_kill"]), None)
