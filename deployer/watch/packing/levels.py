"""The numbers of agents that are tried, which of them is best, and who leaves then; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deployer.executors.base import Memory
from deployer.model import Agent
from deployer.text import format_bytes
from deployer.watch.packing.rates import Rate

# Never fewer than before: nobody has to leave but those of the last step, which did not pay.
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
LEAST_GAIN = 0.05  # less is worth no neighbour
USABLE = 0.9  # of memory that is free: runs do not all need their most at the same time


@dataclass(frozen=True)
class Place:
    """What agents share: `count` GPUs, or one machine without any; in a cluster each pod."""

    count: int = 1
    gpu: bool = False
    pod: bool = False

    @property
    def name(self) -> str:
        """Return what one of them is called."""
        return "a pod" if self.pod else "a GPU" if self.gpu else "this machine"

    def describe(self, size: int) -> str:
        """Say how many agents share it."""
        agents = f"{size} agent{'' if size == 1 else 's'}"
        if self.pod:
            return f"{agents} per pod"
        return f"{agents} per GPU" if self.gpu else f"{agents} on this machine"


@dataclass(frozen=True)
class Level:
    """What was measured with `size` agents on each GPU, or on the machine."""

    size: int
    rate: Rate


def next_size(size: int) -> int | None:
    """Return how many agents are tried after `size`; None if there are no more."""
    return next((one for one in SIZES if one > size), None)


def is_better(level: Level, than: Level) -> bool:
    """Tell whether more gets done, by more than what may be chance."""
    noise = math.hypot(level.rate.error, than.rate.error)
    return level.rate.value > than.rate.value * (1 + max(LEAST_GAIN, noise))


def find_best(levels: Sequence[Level]) -> Level:
    """Return the level to keep: the smallest that no other is better than."""
    best = levels[0]
    for level in levels[1:]:
        best = level if is_better(level, best) else best
    return best


def find_lack(memory: Iterable[Memory], size: int, larger: int) -> str:
    """Say which memory `larger` agents would not have, measured with `size`; empty if none."""
    for one in memory:
        needed = one.used_bytes * (larger / size - 1)
        if needed > one.free_bytes * USABLE:
            used, free = format_bytes(one.used_bytes), format_bytes(one.free_bytes)
            return f"{one.name}: {used} used, {free} free"
    return ""


def choose_surplus(agents: Sequence[Agent], size: int) -> tuple[str, ...]:
    """Return who leaves until `size` agents stay on each GPU, or on the machine: the youngest."""
    staying = [a for a in agents if a.state in ("starting", "running") and not a.foreign]
    places = {agent.gpu for agent in staying}
    return tuple(
        agent.name
        for place in sorted(places)
        for agent in sorted((a for a in staying if a.gpu == place), key=_age)[size:]
    )


def describe_levels(place: Place, levels: Sequence[Level], why: str = "") -> str:
    """Say which level is kept, with the figures of all: `2 agents per GPU: 118 runs/h (1: 72)`."""
    best = find_best(levels)
    others = ", ".join(f"{one.size}: {one.rate.figure}" for one in levels if one != best)
    figures = f"{best.rate.figure} {best.rate.unit}" + (f" ({others})" if others else "")
    return f"{place.describe(best.size)}: {figures}" + (f"; {why}" if why else "")


def _age(agent: Agent) -> tuple[float, str]:
    return agent.started_at, agent.name
