"""Why agents have not started, for a terminal without a live view: one line for each cause."""

from __future__ import annotations

import re

from deployer.model import Agent
from deployer.watch.status import Status

# "1 Insufficient cpu", "0/3 nodes are available"; an exit code counts nothing.
COUNT = re.compile(r"\b\d+(/\d+)? (?=\w)")


def build_reason_lines(status: Status) -> dict[str, str]:
    """Say why agents have not started or do not answer: a line for each cause, by the cause.

    The same cause has the same key later, though other agents have it, or counts in it differ.
    """
    names: dict[str, list[Agent]] = {}
    for agent in status.agents:
        if agent.reason and agent.state != "ended":
            names.setdefault(_build_cause(agent), []).append(agent)
    return {
        cause: f"{first.name}{f' and {len(rest)} more' if rest else ''} {first.state}: "
        f"{first.reason}"
        for cause, (first, *rest) in names.items()
    }


def _build_cause(agent: Agent) -> str:
    """Return what stays the same of an agent's reason: neither its name nor counts."""
    return f"{agent.state}: {COUNT.sub('', agent.reason.replace(agent.name, ''))}"
