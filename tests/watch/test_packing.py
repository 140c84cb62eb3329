"""How many agents share a place best, from runs of a machine whose shape is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from deployer.executors.base import Memory
from deployer.model import Agent, Run, Sweep, SweepPath
from deployer.watch.packing.levels import (
    Level,
    Place,
    choose_surplus,
    describe_levels,
    find_best,
    find_lack,
)
from deployer.watch.packing.measurement import Measurement
from deployer.watch.packing.rates import Mark, Rate, Unit, measure_runs, measure_steps
from deployer.watch.status import Status, summarise_status

PATH = SweepPath("e", "p", "s")
CONFIG: dict[str, Any] = {"method": "random", "parameters": {"lr": {"min": 0, "max": 1}}}
LOOK_SECONDS = 2.0


@dataclass
class Machine:
    """Agents that do runs of `work` seconds; `cores` of them are as fast as one alone."""

    cores: int
    work: float
    runs_left: int = 10**6
    breaks_with: int = 10**6
    now: float = 0.0
    done: dict[str, float] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    at: dict[str, str] = field(default_factory=dict)

    def go_on(self, agents: int) -> Status:
        """Let so many agents work until the next look, and return what is seen then."""
        names = [f"s-a{n}" for n in range(1, agents + 1)]
        for _ in range(20):
            self.now += LOOK_SECONDS / 20
            for name in names:
                self._work(name, min(1.0, self.cores / agents) * LOOK_SECONDS / 20)
        if agents >= self.breaks_with and names[-1] in self.at:
            self._change(self.at.pop(names[-1]), "failed")
        states = [
            Agent(name, str(PATH), "running", 0.0, run_id=self.at.get(name)) for name in names
        ]
        state = "RUNNING" if self.runs_left + len(self.at) else "FINISHED"
        expected = len(self.runs) + self.runs_left
        sweep = Sweep(PATH, "n", "t", state, CONFIG, len(self.runs), expected, None)
        return summarise_status(sweep, list(self.runs.values()), states, 0, None, self.now)

    def _work(self, name: str, seconds: float) -> None:
        if name not in self.at and self.runs_left:
            self.runs_left -= 1
            run_id = self.at[name] = f"r{len(self.runs)}"
            self.done[run_id] = 0.0
            self.runs[run_id] = Run(run_id, "", "running", {}, {}, None, self.now, None)
        if run_id := self.at.get(name, ""):
            self.done[run_id] += seconds
            # A step every second, of which the server hears every five.
            if self.now - self.runs[run_id].summary.get("_timestamp", 0.0) >= 5:
                self._change(run_id, "running")
            if self.done[run_id] >= self.work * (1 + 0.02 * (len(self.done) % 3)):
                self._change(self.at.pop(name), "finished")

    def _change(self, run_id: str, state: str) -> None:
        summary = {"_timestamp": self.now, "_step": int(10 * self.done[run_id])}
        old = self.runs[run_id]
        self.runs[run_id] = Run(run_id, "", state, {}, summary, None, old.created_at, self.now)


def measure(machine: Machine, measurement: Measurement, *memory: Memory) -> Measurement:
    """Let a machine work until the measurement is over."""
    while not measurement.over:
        measurement.look(machine.go_on(measurement.agents), machine.now, memory)
        assert machine.now < 4000
    return measurement


@pytest.mark.parametrize("work", [3.0, 25.0, 4000.0])
@pytest.mark.parametrize(("cores", "best"), [(1, 1), (2, 2), (3, 3), (6, 6)])
def test_the_number_is_found_above_which_nothing_is_gained(
    cores: int, best: int, work: float
) -> None:
    measured = measure(Machine(cores, work), Measurement(Place()))
    assert measured.best == best
    unit = Unit.STEPS if work > 1000 else Unit.RUNS
    assert {level.rate.unit for level in measured.levels} == {unit}
    assert [level.size for level in measured.levels][-1] > best


def test_what_was_measured_is_said_with_its_figures() -> None:
    measured = measure(Machine(2, 3.0), Measurement(Place(2, gpu=True)))
    assert measured.best == 1
    assert measured.sentence() == "1 agent per GPU: 2323 runs/h (2: 2323)"


def test_a_measurement_goes_on_after_the_levels_that_are_known() -> None:
    first = measure(Machine(2, 3.0), Measurement(Place(), most=1))
    again = measure(Machine(2, 3.0), Measurement(Place(), levels=first.levels))
    assert [level.size for level in again.levels] == [1, 2, 3]
    assert again.best == 2


@pytest.mark.parametrize(
    ("machine", "more", "why"),
    [
        (Machine(8, 3.0), {"most": 3}, "4 would be more than --replicas 3"),
        (Machine(8, 3.0, runs_left=30), {}, "the sweep ended first"),
        (Machine(8, 400.0, runs_left=2), {}, "2 runs left are too few for 3"),
        (Machine(8, 3.0, breaks_with=2), {}, "with 2 a run failed"),
        (Machine(0, 3.0), {}, "with 1, too little was finished or logged in 5 min"),
    ],
)
def test_it_says_why_no_more_were_tried(machine: Machine, more: Any, why: str) -> None:
    assert measure(machine, Measurement(Place(), **more)).why == why


def test_no_agent_joins_where_it_would_have_no_memory() -> None:
    gpu = Memory("memory of GPU 0", 50 * 10**9, 30 * 10**9)
    measured = measure(Machine(8, 3.0), Measurement(Place(gpu=True)), gpu)
    assert measured.best == 1
    assert measured.why == "2 have no room: memory of GPU 0: 50 GB used, 30 GB free"
    assert find_lack([gpu], 2, 3) == ""


def test_rounds_of_all_agents_are_what_runs_take() -> None:
    # Two agents in step, each run 10 s: the first two ends only begin the counting.
    rate = measure_runs([5, 5, 15, 15, 25, 25], 2)
    assert rate == Rate(720.0, 0.0, Unit.RUNS)
    assert measure_runs([5, 5, 15, 15, 25], 2) is None
    assert measure_runs([], 1) is None


def test_a_run_is_compared_with_itself() -> None:
    def trail(speed: float) -> list[Mark]:
        return [Mark(t, speed * t) for t in (0.0, 5.0, 10.0)]

    alone = measure_steps({"large": trail(2.0)}, 1)
    assert alone
    assert alone.value == 2.0
    # The newcomer is ten times as fast, since its configuration is small: that is no gain.
    both = measure_steps({"large": trail(1.5), "small": trail(20.0)}, 2, alone, 1)
    assert both
    assert both.value == 3.0
    assert measure_steps({"idle": trail(0.0), "new": trail(1.0)[:2]}, 2, alone, 1) is None


def level(size: int, value: float, error: float = 0.0) -> Level:
    return Level(size, Rate(value, error, Unit.RUNS))


def test_more_agents_have_to_pay_by_more_than_chance() -> None:
    assert find_best([level(1, 100), level(2, 102)]).size == 1
    assert find_best([level(1, 100, 0.1), level(2, 110, 0.1)]).size == 1
    assert find_best([level(1, 100, 0.1), level(2, 150, 0.1), level(3, 140)]).size == 2
    said = describe_levels(Place(), [level(1, 72), level(2, 118), level(3, 109)], "because")
    assert said == "2 agents on this machine: 118 runs/h (1: 72, 3: 109); because"


def test_the_youngest_of_each_gpu_leave() -> None:
    agents = [Agent(f"s-a{n}", str(PATH), "running", float(n), gpu=str(n % 2)) for n in range(1, 7)]
    assert choose_surplus(agents, 2) == ("s-a6", "s-a5")
    assert choose_surplus(agents, 3) == ()
