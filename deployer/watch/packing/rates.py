"""How much work agents do together, and how sure that is; pure.

Runs that end often are counted. Of longer ones the logged steps are, each run compared with itself:
how fast it was with one neighbour less says what the next one costs, whatever its configuration is.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

FEWEST_ROUNDS = 4  # fewer say nothing of how much they differ
ROUNDS_OF_EACH = 2
FEWEST_MARKS = 3


class Unit(StrEnum):
    """What is counted."""

    RUNS = "runs/h"
    STEPS = "steps/s"


class Mark(NamedTuple):
    """How far a run was: its last logged step, in seconds since the epoch on its own clock."""

    time: float
    step: float


@dataclass(frozen=True)
class Rate:
    """What all agents together get done.

    `error` is a standard error as a share of `value`. `speeds` are the steps a second of each run,
    by its id, where steps are counted.
    """

    value: float
    error: float
    unit: Unit
    speeds: Mapping[str, float] = field(default_factory=dict)

    @property
    def figure(self) -> str:
        """Return the value in as many digits as mean something."""
        return f"{self.value:.0f}" if self.value >= 100 else f"{self.value:.3g}"


def measure_runs(ends: Sequence[float], agents: int) -> Rate | None:
    """Return the rate at which runs finish; None as long as there are too few.

    `ends` are in seconds since the epoch, ascending. Counted is the time in which as many finish as
    there are agents: the first ends only begin it, so that what runs did before does not count.
    """
    rounds = [later - end for end, later in zip(ends, ends[agents:], strict=False)]
    if len(rounds) < max(ROUNDS_OF_EACH * agents, FEWEST_ROUNDS):
        return None
    mean = statistics.fmean(rounds)
    if mean <= 0:
        return None
    # Rounds overlap: only so many of them are independent.
    error = statistics.stdev(rounds) / mean * math.sqrt(agents / len(rounds))
    return Rate(3600 * agents / mean, error, Unit.RUNS)


def measure_steps(
    trails: Mapping[str, Sequence[Mark]],
    agents: int,
    before: Rate | None = None,
    agents_before: int = 1,
) -> Rate | None:
    """Return the rate at which steps are logged; None if no run has logged enough.

    `trails` are the marks of each run, by its id. Runs that were measured `before` as well give the
    rate by what has become of their speed; where there is none, by the mean of all speeds.
    """
    measured = {run: found for run, trail in trails.items() if (found := _measure_speed(trail))}
    if not measured:
        return None
    speeds = {run: speed for run, (speed, _) in measured.items()}
    known = before.speeds if before else {}
    shared = [run for run in speeds if known.get(run)]
    chosen = shared or list(speeds)
    error = math.sqrt(sum(measured[run][1] ** 2 for run in chosen)) / len(chosen)
    if before and shared:
        slowed = statistics.fmean(speeds[run] / known[run] for run in shared)
        return Rate(before.value * agents / agents_before * slowed, error, Unit.STEPS, speeds)
    mean = statistics.fmean(speeds.values())
    if len(speeds) > 1:  # configurations differ, too
        spread = statistics.stdev(speeds.values()) / mean / math.sqrt(len(speeds))
        error = max(error, spread) if before else error
    return Rate(agents * mean, error, Unit.STEPS, speeds)


def _measure_speed(trail: Sequence[Mark]) -> tuple[float, float] | None:
    """Return a run's steps a second with the share by which they may be wrong."""
    if len(trail) < FEWEST_MARKS:
        return None
    speed = (trail[-1].step - trail[0].step) / (trail[-1].time - trail[0].time)
    if speed <= 0:
        return None
    parts = [(b.step - a.step) / (b.time - a.time) for a, b in pairwise(trail)]
    return speed, statistics.stdev(parts) / speed / math.sqrt(len(parts))
