"""Agents as the page shows them: where each is, and what it does now; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Doing(StrEnum):
    """What an agent does now."""

    WORKING = "working"
    WAITING = "waiting"
    SILENT = "silent"
    ENDED = "ended"


@dataclass(frozen=True)
class AgentNow:
    """An agent: its machine (a pod's name in a cluster), GPUs in words, its run and node if any.

    `finished` counts the runs that it has finished; times are epoch seconds.
    """

    name: str
    host: str
    doing: Doing
    run_id: str | None
    finished: int
    heartbeat_at: float | None
    gpus: str = ""
    node: str = ""


def describe_agents(agents: Sequence[AgentNow]) -> list[dict[str, Any]]:
    """Return them as JSON, those that work first."""
    order = list(Doing)
    ordered = sorted(agents, key=lambda agent: order.index(agent.doing))
    return [
        {
            "name": agent.name,
            "host": agent.host,
            "doing": agent.doing,
            "run": agent.run_id,
            "finished": agent.finished,
            "heartbeat_at": agent.heartbeat_at,
            "gpus": agent.gpus,
            "node": agent.node,
        }
        for agent in ordered
    ]
