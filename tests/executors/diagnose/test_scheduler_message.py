"""The scheduler's sentences, as each version of Kubernetes writes them, taken apart."""

from __future__ import annotations

import pytest

from deployer.executors.kubernetes.diagnose.scheduler_message import Barrier, parse_message
from tests.outside.files import load

CASES = load("scheduler")["messages"]


@pytest.mark.parametrize("name", CASES)
def test_each_version_is_understood(name: str) -> None:
    message, expected = CASES[name]["message"], CASES[name]["obstacles"]
    refusal = parse_message(message)
    assert refusal
    assert refusal.nodes == int(message[2])
    assert [[o.count, o.barrier.name, o.detail] for o in refusal.obstacles] == expected


def test_the_nodes_with_which_a_pod_came_furthest_count() -> None:
    refusal = parse_message(CASES["1.24 taint"]["message"])
    assert refusal
    assert refusal.nearest
    assert refusal.nearest.barrier is Barrier.INSUFFICIENT


def test_what_is_not_about_nodes_is_left_alone() -> None:
    assert parse_message("no nodes available to schedule pods") is None
