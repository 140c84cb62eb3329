"""A sweep's agents as W&B's public API tells of them; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from deployer.model import Run
from deployer.page.agents import AgentNow, Doing
from deployer.page.run_document import describe_gpus
from deployer.sweeps.results import ACTIVE_STATES
from deployer.wandb_api.model import AgentInfo, Snapshot

DOING = {"FINISHED": Doing.ENDED, "KILLED": Doing.ENDED, "CRASHED": Doing.SILENT}


def list_agents(snapshot: Snapshot) -> list[AgentNow]:
    """Return the agents; a server that keeps no attempts does not tell which runs were whose."""
    by_start = _by_start(snapshot.runs)
    owners = {run.run_id: _find_owner(snapshot.agents, run) for run in by_start}
    newest = {owners[run.run_id]: run for run in by_start}
    finished = Counter(owners[run.run_id] for run in by_start if run.state == "finished")
    active = {owners[run.run_id]: run.run_id for run in by_start if run.state in ACTIVE_STATES}
    return [
        _describe(one, newest.get(one.agent_id), active.get(one.agent_id), finished[one.agent_id])
        for one in snapshot.agents
    ]


def _find_owner(agents: Sequence[AgentInfo], run: Run) -> str:
    """Return the id of a run's last agent: of all with its name, the first heard of since then."""
    begun = int(run.attempts[-1].assigned_at or 0) if run.attempts else 0  # heartbeats are rounded
    named = sorted((a.heartbeat_at or 0.0, a.agent_id) for a in agents if a.name == find_agent(run))
    since = [agent_id for heartbeat_at, agent_id in named if heartbeat_at >= begun]
    return since[0] if since else named[-1][1] if named else ""


def find_agent(run: Run) -> str:
    """Return the name of the agent that has or had a run last; empty if it is not known."""
    return run.attempts[-1].agent if run.attempts else ""


def _by_start(runs: Iterable[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: run.created_at or 0.0)


def _describe(agent: AgentInfo, newest: Run | None, active: str | None, finished: int) -> AgentNow:
    doing = DOING.get(agent.state, Doing.WORKING if active else Doing.WAITING)
    return AgentNow(
        name=agent.name,
        host=agent.host,
        doing=doing,
        run_id=active if doing is Doing.WORKING else None,
        finished=finished,
        heartbeat_at=agent.heartbeat_at,
        gpus=describe_gpus(newest.environment) if newest else "",
    )
