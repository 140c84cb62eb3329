"""Which agents a plan has: names, GPUs, and never two with one name."""

from __future__ import annotations

from deployer.executors.plan import build_plan
from deployer.model import Plan

SWEEP = "me/proj/ab12cd34"


def plan(replicas: int, **more: tuple[str, ...]) -> Plan:
    """Plan agents for one sweep."""
    return build_plan(SWEEP, "http://127.0.0.1:1", "/work", replicas, **more)  # type: ignore[arg-type]


def names(found: Plan) -> list[str]:
    """Return the names of a plan's agents."""
    return [agent.name for agent in found.agents]


def test_new_agents_are_numbered_from_one() -> None:
    assert names(plan(3)) == ["ab12cd34-a1", "ab12cd34-a2", "ab12cd34-a3"]


def test_the_same_question_has_the_same_answer() -> None:
    assert plan(4, existing=("ab12cd34-a2",)) == plan(4, existing=("ab12cd34-a2",))


def test_agents_that_stay_keep_their_names_and_gaps_are_filled() -> None:
    assert names(plan(3, existing=("ab12cd34-a2",))) == [
        "ab12cd34-a1",
        "ab12cd34-a2",
        "ab12cd34-a3",
    ]


def test_more_agents_than_asked_for_all_stay() -> None:
    assert names(plan(1, existing=("ab12cd34-a1", "ab12cd34-a2"))) == ["ab12cd34-a1", "ab12cd34-a2"]


def test_the_name_of_an_agent_that_is_leaving_is_not_given_away() -> None:
    assert names(plan(1, leaving=("ab12cd34-a1",))) == ["ab12cd34-a2"]


def test_gpus_are_dealt_round_robin_by_number() -> None:
    found = plan(5, gpus=("0", "1"))
    assert [agent.gpus for agent in found.agents] == [("0",), ("1",), ("0",), ("1",), ("0",)]


def test_an_agent_that_replaces_another_gets_its_gpu() -> None:
    found = plan(3, existing=("ab12cd34-a1", "ab12cd34-a3"), gpus=("0", "1", "2"))
    assert {a.name: a.gpus for a in found.agents}["ab12cd34-a2"] == ("1",)


def test_without_gpus_nothing_is_dealt() -> None:
    assert [agent.gpus for agent in plan(2).agents] == [(), ()]
