"""Nodes on which runs keep failing while they succeed elsewhere; pure.

An executor knows where an agent is now, a server which agent made an attempt: a watcher joins the
two. Servers that keep no attempts tell nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from deployer.model import Agent, Attempt
from deployer.sweeps.results import Row

# What a node can be to blame for. A memory limit is the same everywhere, and who interrupts a run,
# or loses a node, is no sign of what the next run will meet.
BLAMED = ("own failure", "never started", "missing program", "signal")
FEWEST_RUNS = 3  # that fail in a row on the node, and that finish on others

AttemptKey = tuple[str, int]
UNKNOWN = ""


@dataclass(frozen=True)
class BadNode:
    """A node, and the runs that failed there one after another."""

    name: str
    run_ids: tuple[str, ...]

    def sentence(self) -> str:
        """Say why it is avoided; whether others should avoid it, too, is not known here."""
        runs = f"{len(self.run_ids)} runs in a row failed there ({', '.join(self.run_ids)})"
        return f"node {self.name}: {runs}, avoided from now on"


def locate_attempts(
    known: Mapping[AttemptKey, str] | None, rows: Iterable[Row], agents: Iterable[Agent]
) -> dict[AttemptKey, str]:
    """Return the node of each attempt: as `known`, else where its agent is now.

    At the first look, when nothing is known (None), attempts that have ended are on no known node:
    their agent may have moved since.
    """
    nodes = {agent.name: agent.node for agent in agents}
    found = dict(known or {})
    for row in rows:
        for attempt in row.attempts:
            key = (row.run_id, attempt.number)
            node = nodes.get(attempt.agent, UNKNOWN)
            over = attempt.cause is not None
            if key not in found and (node or over):
                found[key] = UNKNOWN if known is None and over else node
    return found


def find_bad_nodes(
    rows: Iterable[Row], nodes: Mapping[AttemptKey, str], known: Collection[str] = ()
) -> tuple[BadNode, ...]:
    """Return nodes, beyond those `known`, on which runs in a row failed that do well elsewhere.

    Each run counts once, and not if it fails elsewhere too.
    """
    by_node = _group_by_node(rows, nodes)
    bad = []
    for name in sorted(by_node.keys() - {*known}):
        others = [node for node in by_node if node != name and node not in known]
        elsewhere = [pair for node in others for pair in by_node[node]]
        failed_elsewhere = {run_id for run_id, attempt in elsewhere if _is_bad(attempt)}
        streak = _list_streak(by_node[name], failed_elsewhere)
        if len(streak) >= FEWEST_RUNS and _goes_well(elsewhere):
            bad.append(BadNode(name, streak))
    return tuple(bad)


def _group_by_node(
    rows: Iterable[Row], nodes: Mapping[AttemptKey, str]
) -> dict[str, list[tuple[str, Attempt]]]:
    """Return by node what tells something, oldest end first."""
    told = [
        (row.run_id, attempt)
        for row in rows
        for attempt in row.attempts
        if attempt.cause in (*BLAMED, "finished", "delivered")
    ]
    found: dict[str, list[tuple[str, Attempt]]] = {}
    for run_id, attempt in sorted(told, key=lambda pair: pair[1].ended_at or 0.0):
        if node := nodes.get((run_id, attempt.number)):
            found.setdefault(node, []).append((run_id, attempt))
    return found


def _list_streak(
    attempts: Sequence[tuple[str, Attempt]], failed_elsewhere: Collection[str]
) -> tuple[str, ...]:
    """Return the runs that failed on a node since the last one finished there."""
    streak: list[str] = []
    for run_id, attempt in attempts:
        if not _is_bad(attempt):
            streak.clear()
        elif run_id not in failed_elsewhere and run_id not in streak:
            streak.append(run_id)
    return tuple(streak)


def _goes_well(attempts: Sequence[tuple[str, Attempt]]) -> bool:
    """Tell whether enough attempts finish, and four times as many as fail."""
    bad = sum(_is_bad(attempt) for _, attempt in attempts)
    finished = len(attempts) - bad
    return finished >= FEWEST_RUNS and finished >= 4 * bad


def _is_bad(attempt: Attempt) -> bool:
    return attempt.cause in BLAMED
