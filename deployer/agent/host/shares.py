"""The share of a machine that one of several agents on a GPU, or in a pod, takes."""

import contextlib
import os
from typing import Dict

CPU_LIMIT = "/sys/fs/cgroup/cpu.max"  # of a pod's own control group, version 2
GPU_SHARE = 0.9  # the rest is what each process takes outside of any pool


def divide(cpus: int, agents: int, on_gpu: int) -> Dict[str, str]:
    """Return the variables that keep one of `agents` to its share, where nobody set them.

    `on_gpu` of them have its GPU. Threads, since each library would start one for each CPU; and
    memory of the GPU, of which JAX and TensorFlow would take nearly all at once.
    """
    threads = str(max(1, cpus // agents))
    return {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{GPU_SHARE / on_gpu:.3f}",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }


def count_cpus(limit_path: str = CPU_LIMIT) -> int:
    """Return how many CPUs this process may use: of the machine, and of its control group."""
    count = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError), open(limit_path, encoding="utf-8") as file:
        quota, period = file.read().split()
        count = min(count, max(1, int(quota) // int(period)))  # `max` without a limit
    return count
