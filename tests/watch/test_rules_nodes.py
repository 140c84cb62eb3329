"""When a node is to blame for the runs that fail on it."""

from __future__ import annotations

import pytest

from deployer.model import Agent, Attempt
from deployer.sweeps.results import Row
from deployer.watch.rules import BadNode, find_bad_nodes, locate_attempts
from tests.watch.test_rules_restarts import PATH

CAUSES = {"f": "finished", "x": "own failure", "s": "signal", "o": "OOM", "i": "interrupted"}


def build_history(history: str) -> tuple[list[Row], dict[tuple[str, int], str]]:
    """Read attempts in the order of their ends: `a1x` is run 1 failing by itself on node a."""
    attempts: dict[str, list[Attempt]] = {}
    nodes = {}
    for moment, word in enumerate(history.split()):
        node, run_id, letter = word[0], word[1], word[2]
        made = attempts.setdefault(run_id, [])
        number = len(made) + 1
        made.append(Attempt(number, node, 0.0, float(moment), CAUSES[letter], None))
        nodes[run_id, number] = node
    rows = [
        Row(None, run_id, "", "", None, {}, None, None, attempts=tuple(made))
        for run_id, made in attempts.items()
    ]
    return rows, nodes


@pytest.mark.parametrize(
    ("history", "bad"),
    [
        # Three different runs, none of which failed elsewhere, where all others finish.
        ("b1f b2f b3f b4f a5x a6s a7x", "567"),
        # Two are too few, and so is one that is tried again and again.
        ("b1f b2f b3f b4f a5x a6x", ""),
        ("b1f b2f b3f b4f a5x a5x a5x a6x", ""),
        # One that finishes there begins anew.
        ("b1f b2f b3f b4f a5x a6x a7f a8x", ""),
        # A run that fails on another node too is to blame itself.
        ("b1f b2f b3f b4f a5x a6x b5x a7x", ""),
        # Nothing is known of other nodes, or nothing finishes there.
        ("a1x a2x a3x a4x", ""),
        ("b1x b2x a3x a4x a5x a6x a7x", ""),
        # Little is known of other nodes.
        ("b1f b2f a3x a4x a5x a6x", ""),
        # Every second run fails elsewhere.
        ("b1f b2x b3f b4x b5f b6x a7x a8x a9x", ""),
        # Memory limits and interruptions are no fault of a node.
        ("b1f b2f b3f b4f a5o a6o a7o a8i a9i", ""),
    ],
)
def test_a_node_is_bad_if_only_there_runs_keep_failing(history: str, bad: str) -> None:
    rows, nodes = build_history(history)
    expected = (BadNode("a", tuple(bad)),) if bad else ()
    assert find_bad_nodes(rows, nodes) == expected
    assert find_bad_nodes(rows, nodes, {"a"}) == ()


def build_agent(name: str, node: str) -> Agent:
    return Agent(name, str(PATH), "running", 0.0, node=node)


def build_row(*attempts: Attempt) -> Row:
    return Row(None, "r", "", "", None, {}, None, None, attempts=attempts)


def test_an_attempt_was_where_its_agent_was_first_seen_with_it() -> None:
    begun = Attempt(1, "s-a1", 0.0, None, None, None)
    over = Attempt(1, "s-a1", 0.0, 1.0, "own failure", 1)
    second = Attempt(2, "s-a1", 2.0, 3.0, "own failure", 1)
    # What ended before the first look may have been anywhere.
    assert locate_attempts(None, [build_row(over)], [build_agent("s-a1", "n2")]) == {("r", 1): ""}
    known = locate_attempts(None, [build_row(begun)], [build_agent("s-a1", "n1")])
    # Its agent has moved since; one that came and went between two looks was where it is now.
    moved = locate_attempts(known, [build_row(over, second)], [build_agent("s-a1", "n2")])
    assert moved == {("r", 1): "n1", ("r", 2): "n2"}
