"""A sweep's agents as W&B's public API tells of them, and how long each was there; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from deployer.analysis.best_so_far import find_end
from deployer.analysis.cost import Span
from deployer.model import Run
from deployer.page.agents import AgentNow, Doing
from deployer.page.run_document import describe_gpus
from deployer.sweeps.results import ACTIVE_STATES, Row
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


def find_agent(run: Run | Row) -> str:
    """Return the name of the agent that has or had a run last; empty if it is not known."""
    return run.attempts[-1].agent if run.attempts else ""


def list_spans(
    snapshot: Snapshot, rows: Sequence[Row], ended_at: float | None
) -> list[Span] | None:
    """Return how long each agent was there: from its first run to its last sign of life.

    None if it cannot be told whose each run was. `ended_at` is when all was over, if it is.
    """
    begun: dict[str, float] = {}
    ends: dict[str, float] = {}
    for row in rows:
        for attempt in row.attempts:
            if attempt.assigned_at is not None:
                first = begun.get(attempt.agent, attempt.assigned_at)
                begun[attempt.agent] = min(first, attempt.assigned_at)
        if (name := find_agent(row)) and (end := find_end(row)) is not None:
            ends[name] = max(end, ends.get(name, end))
    if not begun:
        return None
    gpus = {find_agent(run): count_gpus(run) for run in _by_start(snapshot.runs)}
    over = {a.name for a in snapshot.agents if a.state in DOING or ended_at is not None}
    return [
        Span(begun[name], _last_sign(snapshot.agents, name, ends) if name in over else None,
             gpus.get(name))
        for name in begun
    ]  # fmt: skip


def count_gpus(run: Run) -> float | None:
    """Return how many GPUs a run's machine had for it; None if the SDK did not say."""
    if not run.environment:
        return None
    count = run.environment.get("gpu_count", 0)
    return float(count) if isinstance(count, int) else None


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


def _last_sign(agents: Sequence[AgentInfo], name: str, ends: dict[str, float]) -> float | None:
    beats = [a.heartbeat_at for a in agents if a.name == name and a.heartbeat_at is not None]
    signs = [*beats, *([ends[name]] if name in ends else [])]
    return max(signs, default=None)
