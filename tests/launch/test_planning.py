"""Which names new agents get, and how many there are if others start or dismiss some meanwhile."""

from __future__ import annotations

from dataclasses import replace

from deployer.executors.plan import build_plan
from deployer.launch.agents.planning import count_changed
from deployer.model import Agent, Sweep, SweepPath
from deployer.watch.status import summarise_status

PATH = SweepPath("e", "p", "s")
RUNNING = Agent("s-a1", str(PATH), "running", 0.0)
DEAD = Agent("s-a2", str(PATH), "lost", 0.0)


def test_a_dead_agent_is_started_again_rather_than_one_of_a_free_name() -> None:
    plan = build_plan(str(PATH), "", "", 3, ["s-a4"], ["s-a2"], preferred=["s-a2", "s-a5", "s-a5"])
    assert [agent.name for agent in plan.agents] == ["s-a1", "s-a4", "s-a5"]


def test_who_plans_sees_what_others_have_done_since() -> None:
    sweep = Sweep(PATH, "n", "t", "RUNNING", {}, 0, None, None)
    seen = summarise_status(sweep, [], [RUNNING, DEAD], 0, None, 0.0).agents
    alive = replace(DEAD, state="starting")
    assert count_changed([RUNNING, DEAD], seen) == 0
    assert count_changed([RUNNING, alive], seen) == 1
    assert count_changed([RUNNING, replace(DEAD, dismissed=True)], seen) == 1
    assert count_changed([RUNNING, DEAD, replace(RUNNING, name="s-a3")], seen) == 1
    assert count_changed([replace(RUNNING, state="lost"), DEAD], seen) == 0
