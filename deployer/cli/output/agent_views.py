"""Agents as tables, a line, and plain data."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from typing import Any

from deployer.cli.output.render import emit, say
from deployer.cli.output.table import Table, without_empty_columns
from deployer.findings import Finding
from deployer.launch.agents.scaling import Ended
from deployer.model import Agent
from deployer.text import format_count, format_seconds

COLUMNS = (
    *("AGENT", "STATE", "RUN", "NODE", "GPU", "RESTARTS"),
    *("AGE", "EXIT", "START", "SWEEP", "OWNER", "REASON"),
)


def show_agents(agents: Sequence[Agent], output: str, now: float) -> None:
    """Put agents on stdout."""
    shared = any(agent.foreign for agent in agents)
    rows = [
        (
            agent.name,
            agent.state,
            agent.run_id,
            name_node(agent.node),
            agent.gpu,
            agent.restarts or None,
            format_seconds((agent.ended_at or now) - agent.started_at),
            agent.exit_code,
            "" if agent.run_start == "warm" else agent.run_start,
            agent.sweep_path,
            agent.owner if shared else "",
            agent.reason,
        )
        for agent in agents
    ]
    table = Table(*without_empty_columns(COLUMNS, rows), empty="no agents")
    emit([agent_to_plain(agent) for agent in agents], output, table)


def name_node(node: str) -> str:
    """Return a node's name, none for this machine: who looks knows where they are."""
    return node if node != platform.node() else ""


def describe_agents(agents: Sequence[Agent]) -> str:
    """Say how many agents are in which state, and why those that have not started wait."""
    waiting = [agent for agent in agents if agent.state == "starting"]
    begun = [agent for agent in agents if agent.state != "starting"]
    counts = Counter(agent.state for agent in begun + waiting)
    said = ", ".join(f"{count} {state}" for state, count in counts.items()) or "none"
    why = next((f": {agent.reason}" for agent in waiting if agent.reason), "")
    may_come = any(not agent.pending or agent.pending.transient is not False for agent in waiting)
    later = "; they start when they can, watched or not" if may_come else ""
    return f"{said}{why}{later}"


def show_ended(whose: str, ended: Ended, output: str, nothing: str) -> None:
    """Say which agents a command has ended, or `nothing`: on stderr; as JSON on stdout."""
    if ended.names:
        say(f"{whose}: {format_count(len(ended.names), 'agent')} ended")
    elif ended:
        say(f"{whose}: no agents were running; deleted the logs and records of ended ones")
    else:
        say(nothing)
    emit({"sweep": whose, "ended": ended.names}, output)


def agent_to_plain(agent: Agent) -> dict[str, Any]:
    """Return an agent with stable keys; its environment is left out: it may hold secrets."""
    plain = {key: value for key, value in vars(agent).items() if key != "environment"}
    return {**plain, "pending": _pending_to_plain(agent.pending) if agent.pending else None}


def _pending_to_plain(why: Finding) -> dict[str, Any]:
    passes = {True: "with-time", False: "never", None: "unknown"}[why.transient]
    return {"cause": why.code, "sentence": why.message, "passes": passes, "remedy": why.fix}
