"""`--packing`: how many agents share a GPU, or this machine; given, or measured while they work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.base import Executor
from deployer.executors.memory import Memory
from deployer.executors.target import Target, Tell
from deployer.launch.request import Packing, Request
from deployer.sweeps.records import find_packing, remember_packing
from deployer.wandb_api.model import SweepPath
from deployer.watch.packing.levels import Level, Place, choose_surplus
from deployer.watch.packing.measurement import Measurement
from deployer.watch.packing.rates import Rate, Unit
from deployer.watch.status import Status

MEMORY_SECONDS = 5.0  # reading it asks nvidia-smi and every process
# JAX takes three quarters of a GPU at its start unless told not to: then none could join it.
GROWING_MEMORY = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


def check_packing(target: Target, request: Request) -> None:
    """Refuse a measurement where agents cannot be added; raises ConfigError."""
    if request.packing is None or request.packing.agents is not None:
        return
    if request.one_run:
        said = "agents that leave after one run are not there long enough to be measured"
        raise ConfigError("--packing", said, "leave --one-run-per-job out, or give a number")
    if not target.runs_here:
        said = f"`auto` measures agents of this machine, and those of {target.name} share a pod"
        raise ConfigError("--packing", said, "give a number: --packing 2")


def prepare_packing(project: Project, packing: Packing | None) -> Project:
    """Return the project for agents of which others will share a GPU, or a pod."""
    if packing is None:
        return project
    if packing.agents is None:
        return replace(project, environment={**GROWING_MEMORY, **project.environment})
    return project.with_kubernetes(agents_per_pod=packing.agents)


def find_place(executor: Executor) -> Place:
    """Return what the agents of this machine share."""
    gpus = len(executor.list_gpus())
    return Place(gpus or 1, gpu=gpus > 0)


@dataclass
class Packer:
    """Measures a sweep's agents while somebody watches, and lets those leave that are too many.

    What was measured is kept with the sweep, so that the next watcher goes on there. `said`
    is whether its end was told.
    """

    executor: Executor
    path: str
    measurement: Measurement
    tell: Tell
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

    def look(self, status: Status, now: float) -> int:
        """Take in a status; return how many agents there shall be."""
        known = len(self.measurement.levels)
        self.measurement.look(status, now, self._read_memory(now))
        for level in self.measurement.levels[known:]:
            self.tell(self._describe(level))
            self._remember()
        if self.measurement.over and not self.said:
            self.said = True
            self.tell(self.measurement.sentence())
            self._drain()
            self._remember()
        return self.agents

    def _describe(self, level: Level) -> str:
        place = self.measurement.place.describe(level.size)
        error = f"± {max(1, round(100 * level.rate.error))} %"
        return f"measured {place}: {level.rate.figure} {level.rate.unit} {error}"

    def _read_memory(self, now: float) -> Sequence[Memory]:
        if self.measurement.over or now - self._memory_at < MEMORY_SECONDS:
            return ()
        self._memory_at = now
        return self.executor.read_memory(self.path)

    def _drain(self) -> None:
        agents = self.executor.list_agents(self.path)
        leaving = choose_surplus(agents, self.measurement.best)
        if leaving:
            self.executor.drain(leaving)
            self.drained.update(leaving)
            self.tell(f"{', '.join(leaving)}: leave after their runs")

    def _remember(self) -> None:
        remember_packing(self.path, to_record(self))


def settle_packing(
    project: Project,
    target: Target,
    packing: Packing | None,
    executor: Executor,
    path: SweepPath,
    tell: Tell,
) -> tuple[Project, Packer | None]:
    """Return the project for as many agents as are to begin, and who measures them, if anybody.

    There are never more than --replicas. Goes on with what was measured of the sweep before.
    """
    if packing is None or not target.runs_here:
        return project, None
    place, most = find_place(executor), project.given_replicas
    if packing.agents is not None:
        count = packing.agents * place.count
        return _with_agents(project, min(count, most or count)), None
    place = replace(place, count=min(place.count, most or place.count))
    packer = from_record(
        find_packing(str(path)), executor, str(path), Measurement(place, most), tell
    )
    measurement = packer.measurement
    if measurement.over:
        tell(f"as measured before: {measurement.sentence()}")
        return _with_agents(project, measurement.best * place.count), packer
    where, seconds = "a GPU" if place.gpu else "this machine", measurement.patience.level
    tell(f"measuring how many agents {where} bears: {seconds:.0f} s or more with each number")
    return _with_agents(project, measurement.agents), packer


def _with_agents(project: Project, count: int) -> Project:
    return replace(project, replicas=count, given_replicas=count)


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
    record: Mapping[str, Any], executor: Executor, path: str, fresh: Measurement, tell: Tell
) -> Packer:
    """Return who goes on with a measurement; with a `fresh` one if it was of another machine."""
    if record.get("place") != asdict(fresh.place):
        return Packer(executor, path, fresh, tell)
    levels = [
        Level(one["size"], Rate(**{**one["rate"], "unit": Unit(one["rate"]["unit"])}))
        for one in record["levels"]
    ]
    known = replace(fresh, levels=levels, over=record["over"], why=record["why"])
    return Packer(executor, path, known, tell, set(record["drained"]), said=known.over)
