"""Who measures a sweep's agents while they work; what is kept of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from deployer.executors.base import Executor, Memory, read_memory
from deployer.sweeps.records import Records
from deployer.watch.packing.levels import Level, choose_surplus
from deployer.watch.packing.measurement import Measurement
from deployer.watch.packing.rates import Rate, Unit
from deployer.watch.status import Status

LOG = logging.getLogger(__name__)

MEMORY_SECONDS = 5.0  # reading it asks nvidia-smi and every process


@dataclass
class Packer:
    """Measures a sweep's agents while somebody watches, and lets those leave that are too many.

    What was measured is kept with the sweep, so that the next watcher goes on there. `said`
    is whether its end was told.
    """

    executor: Executor
    path: str
    measurement: Measurement
    drained: set[str] = field(default_factory=set)
    said: bool = False
    _memory_at: float = 0.0

    @property
    def agents(self) -> int:
        """Return how many agents there shall be now; those that were sent away still count."""
        measurement = self.measurement
        if not measurement.over:
            return measurement.agents
        return measurement.best * measurement.place.count + len(self.drained)

    @property
    def beginning(self) -> int:
        """Return how many agents are to begin."""
        measurement = self.measurement
        over = measurement.over
        return measurement.best * measurement.place.count if over else measurement.agents

    def look(self, status: Status, now: float) -> int:
        """Take in a status; return how many agents there shall be."""
        self._measure(status, now)
        return self.agents

    def _measure(self, status: Status, now: float) -> None:
        """Take in a status, and tell and keep what has become of the measurement."""
        known = len(self.measurement.levels)
        self.measurement.look(status, now, self._read_memory(now))
        for level in self.measurement.levels[known:]:
            LOG.info(self._describe(level))
            self._remember()
        if self.measurement.over and not self.said:
            self.said = True
            LOG.info(self.measurement.sentence())
            self._drain()
            self._remember()

    def _describe(self, level: Level) -> str:
        place = self.measurement.place.describe(level.size)
        error = f"± {max(1, round(100 * level.rate.error))} %"
        return f"measured {place}: {level.rate.figure} {level.rate.unit} {error}"

    def _read_memory(self, now: float) -> Sequence[Memory]:
        if self.measurement.over or now - self._memory_at < MEMORY_SECONDS:
            return ()
        self._memory_at = now
        return read_memory(self.executor, self.path)

    def _drain(self) -> None:
        agents = self.executor.list_agents(self.path)
        leaving = choose_surplus(agents, self.measurement.best)
        if leaving:
            self.executor.drain(leaving)
            self.drained.update(leaving)
            LOG.info(f"{', '.join(leaving)}: leave after their runs")

    def _remember(self) -> None:
        Records.load().note(self.path, packing=to_record(self))


def to_record(packer: Packer) -> dict[str, Any]:
    """Return what is kept of a measurement."""
    measurement = packer.measurement
    return {
        "place": asdict(measurement.place),
        "levels": [asdict(level) for level in measurement.levels],
        "over": measurement.over,
        "why": measurement.why,
        "drained": sorted(packer.drained),
    }


def from_record(
    record: Mapping[str, Any],
    executor: Executor,
    path: str,
    fresh: Measurement,
    build: Callable[..., Packer] = Packer,
) -> Packer:
    """Return who goes on with a measurement; with a `fresh` one if it was of another machine."""
    if record.get("place") != asdict(fresh.place):
        return build(executor, path, fresh)
    levels = [
        Level(one["size"], Rate(**{**one["rate"], "unit": Unit(one["rate"]["unit"])}))
        for one in record["levels"]
    ]
    known = replace(fresh, levels=levels, over=record["over"], why=record["why"])
    return build(executor, path, known, set(record["drained"]), said=known.over)
