"""The memory of this machine and of its GPUs: what agents take, and what is left."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from deployer.executors.base import Memory
from deployer.executors.local.run_environment import PROBE_SECONDS

MEMORY_INFO = Path("/proc/meminfo")
CONTROL_GROUP = Path("/sys/fs/cgroup")  # of a container: its limit counts as well, version 2
MEBIBYTE = 2**20
ASK_GPUS = ("--query-gpu=index,uuid,memory.used,memory.free", "--format=csv,noheader,nounits")


def read_memory(
    processes: Iterable[int], info: Path = MEMORY_INFO, group: Path = CONTROL_GROUP
) -> Sequence[Memory]:
    """Return what processes take of this machine's memory; nothing if it does not say.

    What several share, as forked runs do, counts once.
    """
    lines = (line.split() for line in _read(info).splitlines())
    free = [int(words[1]) * 1024 for words in lines if words[:1] == ["MemAvailable:"]]
    with contextlib.suppress(ValueError):  # `max` without a limit, nothing in another version
        limit, used = (int(_read(group / f"memory.{name}")) for name in ("max", "current"))
        free.append(max(0, limit - used))
    return [Memory("memory", sum(map(_read_share, processes)), min(free))] if free else []


def read_gpu_memory(environment: Mapping[str, str], gpus: Sequence[str]) -> Sequence[Memory]:
    """Return what is taken of the memory of these GPUs, whoever takes it."""
    command = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if command is None or not gpus:
        return ()
    try:
        answer = subprocess.run(
            [command, *ASK_GPUS], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(parse_gpu_memory(answer.stdout, gpus)) if answer.returncode == 0 else ()


def parse_gpu_memory(text: str, gpus: Sequence[str]) -> Iterator[Memory]:
    """Yield the memory of those of nvidia-smi's GPUs that are meant, by number or UUID; pure."""
    for line in text.splitlines():
        number, uuid, *sizes = (part.strip() for part in line.split(","))
        if {number, uuid}.intersection(gpus) and all(size.isdecimal() for size in sizes):
            used, free = (int(size) * MEBIBYTE for size in sizes)
            yield Memory(f"memory of GPU {number}", used, free)


def _read_share(process: int) -> int:
    """Return a process's memory, with its part of what it shares; 0 if it is gone."""
    for line in _read(Path(f"/proc/{process}/smaps_rollup")).splitlines():
        name, *words = line.split()
        if name == "Pss:":
            return int(words[0]) * 1024
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
