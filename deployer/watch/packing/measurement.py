"""One more agent after another on each GPU, or on this machine, for as long as it pays; pure.

The agents do runs of the sweep, as any others: nothing is run for the measurement alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from deployer.executors.base import Memory
from deployer.model import Run
from deployer.text import format_count, format_seconds
from deployer.watch.packing.levels import (
    Level,
    Place,
    describe_levels,
    find_best,
    find_lack,
    next_size,
)
from deployer.watch.packing.rates import Mark, Rate, Unit, measure_runs, measure_steps
from deployer.watch.restarts import HANDING_OUT, takes_runs
from deployer.watch.status import Status

BAD_STATES = ("failed", "crashed")
BAD_CAUSES = ("own failure", "never started", "OOM", "signal")


@dataclass(frozen=True)
class Patience:
    """How long a level is measured, in seconds.

    `level` at least; longer, up to `few_runs`, if runs end but not yet often enough to be counted;
    and never longer than `longest`. Agents may take as long to begin.
    """

    level: float = 60.0
    few_runs: float = 180.0
    longest: float = 300.0


@dataclass
class Measurement:
    """What was measured so far, and how many agents there shall be now.

    `most` is how many there may be in all. `why` says what ended it, once it is `over`; empty if
    that was that more agents did not pay.
    """

    place: Place
    most: int | None = None
    levels: list[Level] = field(default_factory=list)
    over: bool = False
    why: str = ""
    patience: Patience = field(default_factory=Patience)
    size: int = 1
    _asked_at: float | None = None
    _begun_at: float | None = None
    _begun_agents: set[str] = field(default_factory=set)
    _failures: int = 0
    _fails_alone: bool = False
    _trails: dict[str, list[Mark]] = field(default_factory=dict)
    _memory: dict[str, Memory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with the number of the last level, if some are given."""
        if self.levels:
            self.size = self.levels[-1].size

    @property
    def best(self) -> int:
        """Return how many agents are best, as far as it is known."""
        return find_best(self.levels).size if self.levels else 1

    @property
    def agents(self) -> int:
        """Return how many agents there are in all while so many share a place."""
        return self.size * self.place.count

    def look(self, status: Status, now: float, memory: Sequence[Memory] = ()) -> None:
        """Take in what is seen; it may make the level, or the measurement, complete."""
        if self.over or status.trouble:
            self._begun_at = None
        elif status.ended:
            self._end("the sweep ended first")
        elif status.sweep_state not in HANDING_OUT:
            self._asked_at = self._begun_at = None
        elif self.levels and self.levels[-1].size == self.size:
            self._note_memory(memory)
            self._choose_next()
        elif self._has_failed(status.runs):
            self._end(f"with {self.size} a run failed")
        elif self._all_have_begun(status, now):
            self._note_memory(memory)
            self._note_steps(status)
            self._judge(status, now)

    def sentence(self) -> str:
        """Say what came of it, with figures."""
        if self.levels:
            return describe_levels(self.place, self.levels, self.why)
        return f"{self.place.describe(1)}, and more were not measured: {self.why}"

    def _all_have_begun(self, status: Status, now: float) -> bool:
        """Tell whether all agents of this level are at work, and each has had a run."""
        if self._asked_at is None:
            self._asked_at = now
            self._failures = count_failures(status.runs)
            self._begun_agents = set()
        taking = {agent.name for agent in status.agents if takes_runs(agent)}
        busy = {agent.name for agent in status.agents if agent.run_id and agent.name in taking}
        self._begun_agents = (self._begun_agents | busy) & taking
        if len(self._begun_agents) >= self.agents:
            if self._begun_at is None:
                self._begun_at, self._trails = now, {}
            return True
        self._begun_at = None
        coverage = status.results.coverage
        if coverage.expected is not None and coverage.waiting + coverage.running < self.agents:
            left = format_count(coverage.waiting + coverage.running, "run")
            self._end(f"{left} left are too few for {self.size}")
        elif now - self._asked_at > self.patience.longest:
            waited = format_seconds(self.patience.longest)
            self._end(f"with {self.size}, not all had a run after {waited}")
        return False

    def _has_failed(self, runs: Sequence[Run]) -> bool:
        """Tell whether a run failed, maybe for its neighbours; not where they fail without any."""
        if self._asked_at is None or not self.levels or self._fails_alone:
            return False
        return count_failures(runs) > self._failures

    def _judge(self, status: Status, now: float) -> None:
        assert self._begun_at is not None
        seconds = now - self._begun_at
        if (rate := self._measure(status.runs, seconds)) is not None:
            failed = count_failures(status.runs) > self._failures
            self._fails_alone = self._fails_alone or failed
            self.levels.append(Level(self.size, rate))
        elif seconds >= self.patience.longest:
            waited = format_seconds(self.patience.longest)
            self._end(f"with {self.size}, too little was finished or logged in {waited}")

    def _measure(self, runs: Sequence[Run], seconds: float) -> Rate | None:
        """Return the level's rate once enough was seen: in runs if they end often, else in steps.

        All levels are measured in the same unit.
        """
        if seconds < self.patience.level:
            return None
        before = self.levels[-1] if self.levels else None
        unit = before.rate.unit if before else None
        ends = list_ends(runs, self._begun_at or 0.0)
        if unit is not Unit.STEPS:
            rate = measure_runs(ends, self.agents)
            if rate or unit is Unit.RUNS or (ends and seconds < self.patience.few_runs):
                return rate
        rate = measure_steps(
            self._trails,
            self.agents,
            before.rate if before else None,
            before.size * self.place.count if before else 1,
        )
        enough = rate and len(rate.speeds) >= self.agents
        return rate if enough or seconds >= self.patience.few_runs else None

    def _choose_next(self) -> None:
        """Go on to the next level, unless the last did not pay or the next has no room."""
        larger = next_size(self.size)
        if len(self.levels) > 1 and find_best(self.levels) != self.levels[-1]:
            self._end("")
        elif larger is None:
            self._end("more are not tried")
        elif self.most is not None and larger * self.place.count > self.most:
            self._end(f"{larger} would be more than --replicas {self.most}")
        elif lack := find_lack(self._memory.values(), self.size, larger):
            self._end(f"{larger} have no room: {lack}")
        else:
            self.size = larger
            self._asked_at = self._begun_at = None
            self._memory = {}

    def _end(self, why: str) -> None:
        self.over, self.why = True, why

    def _note_memory(self, memory: Sequence[Memory]) -> None:
        """Keep what was seen when agents took most of it."""
        for one in memory:
            known = self._memory.get(one.name)
            if known is None or one.used_bytes > known.used_bytes:
                self._memory[one.name] = one

    def _note_steps(self, status: Status) -> None:
        assert self._begun_at is not None
        for run in status.runs:
            mark = read_mark(run)
            if mark is None or run.state != "running":
                continue
            trail = self._trails.setdefault(run.run_id, [])
            if not trail or mark.time > trail[-1].time:
                trail.append(mark)


def list_ends(runs: Sequence[Run], since: float) -> list[float]:
    """Return when runs finished after a moment, in order; seconds since the epoch."""
    ends = (find_end(run) for run in runs if run.state == "finished")
    return sorted(end for end in ends if end is not None and end > since)


def find_end(run: Run) -> float | None:
    """Return when a finished run ended, as its server knows it."""
    ended_at = run.attempts[-1].ended_at if run.attempts else None
    return ended_at or run.heartbeat_at


def read_mark(run: Run) -> Mark | None:
    """Return how far a run is; None as long as it has logged nothing."""
    time, step = run.summary.get("_timestamp"), run.summary.get("_step")
    if not isinstance(time, int | float) or not isinstance(step, int | float):
        return None
    return Mark(float(time), float(step))


def count_failures(runs: Sequence[Run]) -> int:
    """Count how often runs have ended badly."""
    attempts = sum(attempt.cause in BAD_CAUSES for run in runs for attempt in run.attempts)
    return attempts + sum(run.state in BAD_STATES for run in runs if not run.attempts)
