"""Who measures a sweep's agents while they work, and says how many are wanted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from deployer.executors.base import Executor, Memory, read_memory
from deployer.model import Wanted
from deployer.watch.packing.levels import Level, choose_surplus
from deployer.watch.packing.measurement import Measurement
from deployer.watch.status import Status

LOG = logging.getLogger(__name__)

MEMORY_SECONDS = 5.0  # reading it asks nvidia-smi and every process


@dataclass
class Packer:
    """Measures a sweep's agents while somebody watches, and lets those leave that are too many.

    `told` is whether its end was told.
    """

    executor: Executor
    path: str
    measurement: Measurement
    told: bool = False
    _memory_at: float = 0.0

    @property
    def agents(self) -> int:
        """Return how many agents there shall be now."""
        measurement = self.measurement
        return measurement.best * measurement.place.count if self.told else measurement.agents

    def look(self, status: Status, now: float) -> Wanted:
        """Take in a status; return how many agents are wanted, and who leaves because of it."""
        if not self._measure(status, now):
            return Wanted(self.agents)
        leaving = choose_surplus(status.agents, self.measurement.best)
        if leaving:
            LOG.info(f"{', '.join(leaving)}: leave after their runs")
        return Wanted(self.agents, frozenset(leaving))

    def _measure(self, status: Status, now: float) -> bool:
        """Take in a status and tell what has become of the measurement; return True at its end."""
        known = len(self.measurement.levels)
        self.measurement.look(status, now, self._read_memory(now))
        for level in self.measurement.levels[known:]:
            LOG.info(self._describe(level))
        ends = self.measurement.over and not self.told
        if ends:
            self.told = True
            LOG.info(self.measurement.sentence())
        return ends

    def _describe(self, level: Level) -> str:
        place = self.measurement.place.describe(level.size)
        error = f"± {max(1, round(100 * level.rate.error))} %"
        return f"measured {place}: {level.rate.figure} {level.rate.unit} {error}"

    def _read_memory(self, now: float) -> Sequence[Memory]:
        if self.measurement.over or now - self._memory_at < MEMORY_SECONDS:
            return ()
        self._memory_at = now
        return read_memory(self.executor, self.path)
