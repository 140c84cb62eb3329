"""Which names new agents get, and how many there are if others start or end some meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.executors.local.executor import LocalExecutor
from deployer.executors.plan import build_plan
from deployer.launch.planning import AgentStarter
from deployer.model import Agent, SweepPath, Wanted
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import Viewer
from deployer.wandb_api.server import Server
from tests.project_files import GivenNumber, build_project

PATH = SweepPath("e", "p", "s")
RUNNING = Agent("s-a1", str(PATH), "running", 0.0)
DEAD = Agent("s-a2", str(PATH), "lost", 0.0)


def test_a_dead_agent_is_started_again_rather_than_one_of_a_free_name() -> None:
    plan = build_plan(str(PATH), "", "", 3, ["s-a4"], ["s-a2"], preferred=["s-a2", "s-a5", "s-a5"])
    assert [agent.name for agent in plan.agents] == ["s-a1", "s-a4", "s-a5"]


class Plain(Server):
    """A server that is not asked what it offers."""

    extended = False


class Known(LocalExecutor):
    """A place whose agents, and whose number of wanted ones, are given."""

    def __init__(self, agents: Sequence[Agent], wanted: Wanted | None) -> None:
        super().__init__("local", build_project())
        self.agents = agents
        self.wanted = GivenNumber(str(PATH), wanted)

    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        return [one for one in self.agents if sweep_path in (None, one.sweep_path)]


@pytest.mark.parametrize(
    ("agents", "wanted", "names"),
    [
        ((RUNNING, DEAD), Wanted(2), ["s-a1", "s-a2"]),
        ((RUNNING, DEAD), Wanted(3), ["s-a1", "s-a2", "s-a3"]),
        # Meanwhile another has started it, fewer are wanted, or all were taken down.
        ((RUNNING, replace(DEAD, state="starting")), Wanted(2), ["s-a1", "s-a2"]),
        ((RUNNING, DEAD), Wanted(1), ["s-a1"]),
        ((RUNNING, DEAD), None, ["s-a1"]),
        # Nobody is started under the name of one that was told to leave, dead or not.
        ((RUNNING, DEAD), Wanted(2, frozenset({"s-a2"})), ["s-a1", "s-a3"]),
        ((RUNNING, DEAD), Wanted(1, frozenset({"s-a1"})), ["s-a2"]),
    ],
)
def test_who_plans_sees_what_others_have_done_since(
    agents: Sequence[Agent], wanted: Wanted | None, names: list[str]
) -> None:
    server = Plain(Client("http://here", "key"), Viewer("", ""), embedded=False)
    starter = AgentStarter(server, Known(agents, wanted), PATH, Path("/folder"))
    plan = starter.plan(2, (), ())
    assert [agent.name for agent in plan.agents] == names
