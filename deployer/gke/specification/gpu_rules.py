"""Which accelerators, machine types and partitions go together, as far as Google says it; pure.

What is not known here is let through: Google adds machines, and refuses what is wrong itself.
Sources: https://cloud.google.com/compute/docs/gpus (machine types and their GPUs) and
https://cloud.google.com/kubernetes-engine/docs/how-to/gpus-multi (partitions).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from deployer.gke.specification.parts import ACCELERATOR, GpuChoice
from deployer.text import format_count

Problem = tuple[str, str, str]  # key, message, hint

# These are attached to N1 machines, in these numbers.
ATTACHED = {
    "nvidia-tesla-t4": (1, 2, 4),
    "nvidia-tesla-p4": (1, 2, 4),
    "nvidia-tesla-p100": (1, 2, 4),
    "nvidia-tesla-v100": (1, 2, 4, 8),
}
# These come with the machine. The longer prefix is first.
BUILT_IN = {
    "a2-ultragpu-": "nvidia-a100-80gb",
    "a2-": "nvidia-tesla-a100",
    "a3-ultragpu-": "nvidia-h200-141gb",
    "a3-megagpu-": "nvidia-h100-mega-80gb",
    "a3-": "nvidia-h100-80gb",
    "a4-": "nvidia-b200",
    "a4x-": "nvidia-gb200",
    "g2-": "nvidia-l4",
    "g4-": "nvidia-rtx-pro-6000",
}
KNOWN = (*ATTACHED, *dict.fromkeys(BUILT_IN.values()))
G2_COUNTS = {4: 1, 8: 1, 12: 1, 16: 1, 24: 2, 32: 1, 48: 4, 96: 8}
SHARED_CORE = ("f1-micro", "g1-small")
# Kinds whose partitions are not listed here but exist are let through.
PARTITIONS: dict[str, tuple[str, ...]] = {
    "nvidia-tesla-a100": ("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"),
    "nvidia-a100-80gb": ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"),
}
# Every GPU that can be partitioned has seven compute slices.
COMPUTE_SLICES = 7
MEMORY_GB = {
    "nvidia-tesla-a100": 40,
    "nvidia-a100-80gb": 80,
    "nvidia-h100-80gb": 80,
    "nvidia-h100-mega-80gb": 80,
    "nvidia-h200-141gb": 141,
    "nvidia-b200": 180,
}
UNPARTITIONED = (*ATTACHED, "nvidia-l4")
# Ways to buy a machine other than on demand, by the keys of a choice.
WAYS = ("spot", "flex_start", "reservation")
# What is not sold on demand, and how it is.
# https://cloud.google.com/compute/docs/accelerator-optimized-machines
NOT_ON_DEMAND = {
    "a3-highgpu-1g": ("spot", "flex_start"),
    "a3-highgpu-2g": ("spot", "flex_start"),
    "a3-highgpu-4g": ("spot", "flex_start"),
    "a3-ultragpu-8g": WAYS,
    "a4-highgpu-8g": WAYS,
    "a4x-highgpu-4g": ("reservation",),
}


def check_choice(choice: GpuChoice) -> Iterator[Problem]:
    """Yield what cannot work in a choice: (key, message, hint)."""
    yield from _check_accelerator(choice.accelerator)
    yield from _check_machine(choice)
    yield from _check_partition(choice)
    yield from _check_purchase(choice)


def count_slots(choice: GpuChoice) -> int:
    """Return how many agents with one GPU each, or one part of a GPU, fit onto a node."""
    parts = 1
    if choice.partition_size:
        compute, memory = (int(one) for one in re.findall(r"[0-9]+", choice.partition_size))
        whole = MEMORY_GB.get(choice.accelerator, memory)
        # Sizes are rounded down: two of 3g.71gb fit into 141.
        parts = max(1, min(COMPUTE_SLICES // compute, (whole + 1) // memory))
    return choice.count * parts * (choice.sharing.clients if choice.sharing else 1)


def find_built_in(machine_type: str) -> str | None:
    """Return the accelerator that a machine type comes with."""
    return next((gpu for start, gpu in BUILT_IN.items() if machine_type.startswith(start)), None)


def _check_accelerator(name: str) -> Iterator[Problem]:
    words = set(name.split("-")) - {"nvidia", "tesla", "gpu"}
    # `t4`, `nvidia-t4` and `nvidia-a100` say nothing that a known name does not say.
    like = [one for one in KNOWN if name not in KNOWN and words <= set(one.split("-"))]
    if like:
        yield "accelerator", f"{name!r} is not Google's name of it", f"write {' or '.join(like)}"
    elif not re.fullmatch(ACCELERATOR, name):
        near = difflib.get_close_matches(name.lower(), KNOWN, n=1) or KNOWN
        yield "accelerator", f"{name!r} is not an accelerator", f"such as {', '.join(near)}"


def _check_machine(choice: GpuChoice) -> Iterator[Problem]:
    machine_type, accelerator = choice.machine_type, choice.accelerator
    built_in = find_built_in(machine_type)
    if built_in:
        yield from _check_built_in(choice, built_in)
    elif accelerator in BUILT_IN.values():
        starts = [start for start, gpu in BUILT_IN.items() if gpu == accelerator]
        hint = f"it comes with the machine types {' and '.join(f'{one}*' for one in starts)}"
        yield "machine_type", f"{machine_type} has no {accelerator}", hint
    elif machine_type in SHARED_CORE or not machine_type.startswith(("n1-", "custom-")):
        hint = "GPUs are attached to N1 machines alone, such as n1-standard-8"
        yield "machine_type", f"{machine_type} takes no {accelerator}", hint
    elif choice.count not in ATTACHED.get(accelerator, (choice.count,)):
        counts = ", ".join(str(one) for one in ATTACHED[accelerator])
        yield "count", f"a machine takes no {choice.count} of {accelerator}", f"one of: {counts}"


def _check_built_in(choice: GpuChoice, built_in: str) -> Iterator[Problem]:
    machine_type = choice.machine_type
    count = _count_built_in(machine_type)
    if choice.accelerator != built_in:
        said = f"{machine_type} comes with {built_in}, not with {choice.accelerator}"
        yield "accelerator", said, f"write {built_in}, or another machine_type"
    elif count is not None and choice.count != count:
        said = f"{machine_type} comes with {format_count(count, 'GPU')}"
        yield "count", f"{said}, not with {choice.count}", f"write count: {count}"


def _count_built_in(machine_type: str) -> int | None:
    ending = machine_type.rpartition("-")[2]
    if machine_type.startswith("g2-standard-") and ending.isdigit():
        return G2_COUNTS.get(int(ending))
    return int(ending[:-1]) if re.fullmatch(r"[0-9]+g", ending) else None


def _check_purchase(choice: GpuChoice) -> Iterator[Problem]:
    """Yield what cannot be bought so."""
    said = [way for way in WAYS if getattr(choice, way)]
    if len(said) > 1:
        yield said[1], f"does not go with `{said[0]}`", "machines are bought in one way"
    ways = NOT_ON_DEMAND.get(choice.machine_type, ())
    if ways and not set(said) & set(ways):
        how = " or ".join(f"`{way}`" for way in ways)
        wanted = " or ".join(f"{way}: {'NAME' if way == 'reservation' else 'true'}" for way in ways)
        message = f"{choice.machine_type} is not sold on demand, only by {how}"
        yield "machine_type", message, f"write {wanted}"


def _check_partition(choice: GpuChoice) -> Iterator[Problem]:
    size, accelerator = choice.partition_size, choice.accelerator
    if size is None:
        return
    if choice.sharing and choice.sharing.strategy == "mps":
        hint = "strategy: time-sharing, or remove partition_size"
        yield "sharing", "MPS does not share partitions of a GPU", hint
    if accelerator in UNPARTITIONED:
        hint = "A100, H100 and later GPUs can be; remove it, or choose one of them"
        yield "partition_size", f"{accelerator} cannot be partitioned", hint
    elif size not in PARTITIONS.get(accelerator, (size,)):
        hint = f"one of: {', '.join(PARTITIONS[accelerator])}"
        yield "partition_size", f"{accelerator} has no partition {size}", hint
