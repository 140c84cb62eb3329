"""How one pod takes the place of another while the number of agents in it is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deployer.executors.base import SharesPods
from deployer.executors.local.executor import LocalExecutor
from deployer.launch.packing.pod_packing import PodPacker
from deployer.model import Agent, AgentPlan, AgentState, Ending, Sweep, SweepPath
from deployer.watch.packing.levels import Level, Place
from deployer.watch.packing.measurement import Measurement
from deployer.watch.packing.rates import Rate, Unit
from deployer.watch.status import Status, summarise_status
from tests.project_files import build_project

PATH = SweepPath("e", "p", "s")
CONFIG = {"method": "random", "parameters": {"lr": {"min": 0, "max": 1}}}


class Pods(LocalExecutor, SharesPods):
    """Takes note of who is drained, and of how many share a pod."""

    def __init__(self) -> None:
        super().__init__("local", build_project())
        self.size = 0
        self.drained: list[str] = []

    def drain(self, names: Sequence[str]) -> None:
        self.drained += names

    def share_pods(self, size: int) -> None:
        self.size = size

    def group(self, agents: Sequence[AgentPlan]) -> Sequence[Sequence[AgentPlan]]:
        return [agents]


def show(*states: AgentState) -> Status:
    """Return a status with agents a1, a2, …; those that have ended were drained."""
    agents = [
        Agent(f"s-a{n}", str(PATH), state, 0.0, ending=Ending.DRAINED if state == "ended" else None)
        for n, state in enumerate(states, 1)
    ]
    sweep = Sweep(PATH, "n", "t", "RUNNING", CONFIG, 0, None, None)
    return summarise_status(sweep, [], agents, 0, None, 0.0)


def level(size: int, runs: float) -> Level:
    return Level(size, Rate(runs, 0.0, Unit.RUNS))


def test_a_larger_pod_waits_until_the_former_has_left() -> None:
    pods = Pods()
    measurement = Measurement(Place(pod=True), levels=[level(1, 100.0)])
    packer = PodPacker(pods, str(PATH), measurement)
    assert (packer.beginning, pods.size) == (1, 1)
    assert packer.look(show("running"), 0.0) == 1
    assert (pods.drained, pods.size) == (["s-a1"], 2)
    # As many as there are with those that leave: none is missing yet.
    assert packer.look(show("draining"), 1.0) == 1
    assert packer.look(show("ended"), 2.0) == 1 + 2
    assert packer.look(show("starting", "starting"), 3.0) == 2  # a name is used again
    assert packer.look(show("running", "running"), 4.0) == 2


def test_another_owners_pod_stays() -> None:
    pods = Pods()
    packer = PodPacker(pods, str(PATH), Measurement(Place(pod=True), levels=[level(1, 100.0)]))
    seen = show("running", "running")
    hers = replace(seen.agents[1], foreign=True)
    packer.look(replace(seen, agents=(seen.agents[0], hers)), 0.0)
    assert (pods.drained, pods.size) == (["s-a1"], 2)


def test_the_best_pod_comes_back_and_others_join_it(told: list[str]) -> None:
    pods = Pods()
    levels = [level(1, 100.0), level(2, 101.0)]
    measurement = Measurement(Place(pod=True), levels=levels)
    packer = PodPacker(pods, str(PATH), measurement, total=3)
    assert (packer.beginning, pods.size) == (2, 2)
    assert packer.look(show("running", "running"), 0.0) == 2
    assert told[0] == "1 agent per pod: 100 runs/h (2: 101)"
    assert (pods.drained, pods.size) == (["s-a1", "s-a2"], 1)
    assert packer.look(show("ended", "draining"), 1.0) == 2
    assert packer.look(show("ended", "ended"), 2.0) == 2 + 3
