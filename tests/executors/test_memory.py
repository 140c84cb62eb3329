"""What agents take of a machine's memory and of its GPUs."""

from __future__ import annotations

import os
from pathlib import Path

from deployer.executors.base import Memory
from deployer.executors.local.memory import parse_gpu_memory, read_memory

GPUS = """0, GPU-aaaa, 1024, 80000
1, GPU-bbbb, 3, 81000
2, GPU-cccc, [N/A], [N/A]
"""


def test_only_the_chosen_gpus_count() -> None:
    megabyte = 2**20
    first = Memory("memory of GPU 0", 1024 * megabyte, 80000 * megabyte)
    second = Memory("memory of GPU 1", 3 * megabyte, 81000 * megabyte)
    assert list(parse_gpu_memory(GPUS, ("0", "GPU-bbbb", "2"))) == [first, second]
    assert list(parse_gpu_memory(GPUS, ("0",))) == [first]
    assert list(parse_gpu_memory("", ("0",))) == []


def test_a_container_has_no_more_than_its_limit(tmp_path: Path) -> None:
    info = tmp_path / "meminfo"
    info.write_text("MemTotal:  100 kB\nMemAvailable:   60 kB\n")
    [whole] = read_memory([os.getpid(), 0], info, tmp_path)
    assert whole.free_bytes == 60 * 1024
    assert whole.used_bytes > 10**6
    (tmp_path / "memory.max").write_text("50000\n")
    (tmp_path / "memory.current").write_text("20000\n")
    assert read_memory([], info, tmp_path) == [Memory("memory", 0, 30000)]
    (tmp_path / "memory.max").write_text("max\n")
    assert read_memory([], info, tmp_path) == [Memory("memory", 0, 60 * 1024)]
    assert read_memory([], tmp_path / "none", tmp_path / "none") == []
