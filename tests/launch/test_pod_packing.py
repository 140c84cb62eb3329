"""How one pod takes the place of another while the number of agents in it is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deployer.executors.base import SharesPods
from deployer.executors.local.executor import LocalExecutor
from deployer.launch.packing.pod_packing import PodPacker
from deployer.model import Agent, AgentPlan, AgentState, Sweep, SweepPath, Wanted
from deployer.watch.packing.levels import Level, Place
from deployer.watch.packing.measurement import Measurement
from deployer.watch.packing.rates import Rate, Unit
from deployer.watch.status import Status, summarise_status
from tests.project_files import build_project

PATH = SweepPath("e", "p", "s")
CONFIG = {"method": "random", "parameters": {"lr": {"min": 0, "max": 1}}}


class Pods(LocalExecutor, SharesPods):
    """Takes note of how many share a pod."""

    def __init__(self) -> None:
        super().__init__("local", build_project())
        self.size = 0

    def share_pods(self, size: int) -> None:
        self.size = size

    def group(self, agents: Sequence[AgentPlan]) -> Sequence[Sequence[AgentPlan]]:
        return [agents]


def show(*states: AgentState) -> Status:
    """Return a status with agents a1, a2, …"""
    agents = [Agent(f"s-a{n}", str(PATH), state, 0.0) for n, state in enumerate(states, 1)]
    sweep = Sweep(PATH, "n", "t", "RUNNING", CONFIG, 0, None, None)
    return summarise_status(sweep, [], agents, 0, None, 0.0)


def level(size: int, runs: float) -> Level:
    return Level(size, Rate(runs, 0.0, Unit.RUNS))


def leave(*names: str) -> Wanted:
    return Wanted(0, frozenset(names))


def test_a_larger_pod_waits_until_the_former_has_left() -> None:
    pods = Pods()
    measurement = Measurement(Place(pod=True), levels=[level(1, 100.0)])
    packer = PodPacker(pods, str(PATH), measurement)
    assert (packer.agents, pods.size) == (1, 1)
    assert packer.look(show("running"), 0.0) == leave("s-a1")
    assert pods.size == 2
    # It has not heard yet, then it leaves: none is missing.
    assert packer.look(show("running"), 1.0) == Wanted(0)
    assert packer.look(show("draining"), 1.0) == Wanted(0)
    assert packer.look(show("ended"), 2.0) == Wanted(2)
    assert packer.look(show("starting", "starting"), 3.0) == Wanted(2)  # a name is used again
    assert packer.look(show("running", "running"), 4.0) == Wanted(2)


def test_another_owners_pod_stays() -> None:
    pods = Pods()
    packer = PodPacker(pods, str(PATH), Measurement(Place(pod=True), levels=[level(1, 100.0)]))
    seen = show("running", "running")
    hers = replace(seen.agents[1], foreign=True)
    assert packer.look(replace(seen, agents=(seen.agents[0], hers)), 0.0) == leave("s-a1")
    assert pods.size == 2


def test_the_best_pod_comes_back_and_others_join_it(told: list[str]) -> None:
    pods = Pods()
    levels = [level(1, 100.0), level(2, 101.0)]
    measurement = Measurement(Place(pod=True), levels=levels)
    packer = PodPacker(pods, str(PATH), measurement, total=3)
    assert (packer.agents, pods.size) == (2, 2)
    assert packer.look(show("running", "running"), 0.0) == leave("s-a1", "s-a2")
    assert told[0] == "1 agent per pod: 100 runs/h (2: 101)"
    assert pods.size == 1
    assert packer.look(show("ended", "draining"), 1.0) == Wanted(0)
    assert packer.look(show("ended", "ended"), 2.0) == Wanted(3)
