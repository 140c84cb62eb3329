"""What the database holds of sweeps and runs, in the words of W&B's client, read once per change.

Ranking and coverage are `deployer.sweeps.results`, so that a page and the terminal never disagree.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.backend.db.agents import Agent, list_agents
from deployer.backend.db.attempts import Attempt, list_last_attempts
from deployer.backend.db.database import Connection, select
from deployer.backend.db.projects import Project
from deployer.backend.db.runs import ACTIVE, Run, list_runs
from deployer.backend.db.sweeps import Sweep
from deployer.backend.scheduling.context import Backend
from deployer.page.agents import AgentNow, Doing
from deployer.page.run_document import describe_gpus, read_environment
from deployer.page.sweep_document import SweepSource
from deployer.sweeps.results import Results, build_results
from deployer.wandb_api.model import Attempt as AttemptInfo
from deployer.wandb_api.model import RunInfo, SweepInfo, SweepPath, parse_json, parse_run_config

REMEMBERED_SWEEPS = 20
# Columns that change with whatever a page shows of a sweep's runs.
FINGERPRINT = (
    "SELECT COUNT(*), MAX(id), TOTAL(attempt), TOTAL(queued), TOTAL(heartbeat_at), TOTAL(ended_at),"
    " COUNT(stop_requested_at), TOTAL(exit_code), TOTAL(length(display_name)),"
    " SUM(state = 'running'), SUM(state = 'finished'), SUM(state = 'failed'),"
    " SUM(state = 'killed'), SUM(state = 'crashed'), SUM(state = 'preempted')"
    " FROM runs WHERE sweep_id = ?"
)
# What may be done to a sweep in each state, and the state that follows.
STATES = {"pause": "PAUSED", "resume": "RUNNING", "stop": "FINISHED", "cancel": "CANCELED"}
ACTIONS = {
    "PENDING": ("pause", "stop", "cancel"),
    "RUNNING": ("pause", "stop", "cancel"),
    "PAUSED": ("resume", "stop", "cancel"),
}


@dataclass(frozen=True)
class SweepState:
    """A sweep's rows at one moment."""

    fingerprint: tuple[Any, ...]
    infos: Sequence[RunInfo]
    results: Results
    stopped_early: frozenset[str]
    agent_runs: Mapping[int, str]
    agent_finished: Mapping[int, int]
    agent_gpus: Mapping[int, str]


class SweepReader:
    """Reads sweeps, and again only those that have changed."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._known: OrderedDict[int, SweepState] = OrderedDict()

    def read(self, db: Connection, project: Project, sweep: Sweep) -> SweepSource:
        """Return what a sweep's document is made of."""
        info = sweep_info(project, sweep)
        state = self._state(db, sweep, info)
        now = self._backend.now()
        return SweepSource(
            sweep=info,
            runs=state.infos,
            results=state.results,
            agents=[self._agent(agent, state) for agent in list_agents(db, sweep)],
            now=now,
            stopped_early=state.stopped_early,
            actions=ACTIONS.get(sweep.state, ()),
        )

    def _state(self, db: Connection, sweep: Sweep, info: SweepInfo) -> SweepState:
        seen = fingerprint(db, sweep)
        known = self._known.pop(sweep.id, None)
        if known is None or known.fingerprint != seen:
            known = _read_state(db, sweep, info, seen)
        self._known[sweep.id] = known
        while len(self._known) > REMEMBERED_SWEEPS:
            self._known.popitem(last=False)
        return known

    def _agent(self, agent: Agent, state: SweepState) -> AgentNow:
        run_id = state.agent_runs.get(agent.id)
        silent = self._backend.presence.silence_seconds("agent", agent.id)
        doing = Doing.WORKING if run_id else Doing.WAITING
        if agent.ended_at is not None:
            doing = Doing.ENDED
        elif silent > self._backend.patience.silence_seconds:
            doing = Doing.SILENT
        return AgentNow(
            name=agent.name,
            host=agent.host,
            doing=doing,
            run_id=run_id if doing is Doing.WORKING else None,
            finished=state.agent_finished.get(agent.id, 0),
            heartbeat_at=agent.heartbeat_at,
            gpus=state.agent_gpus.get(agent.id, ""),
        )


def fingerprint(db: Connection, sweep: Sweep) -> tuple[Any, ...]:
    """Return values of which some change with whatever the page of a sweep shows."""
    row = db.execute(FINGERPRINT, (sweep.id,)).fetchone()
    return (sweep.state, sweep.updated_at, sweep.stop_reason, *row)


def look_at_sweep(db: Connection, sweep: Sweep) -> tuple[Any, ...]:
    """Return values of which some change with the page of a sweep, its agents among them."""
    agents = "SELECT COUNT(*), COUNT(ended_at) FROM agents WHERE sweep_id = ?"
    return (*fingerprint(db, sweep), *db.execute(agents, (sweep.id,)).fetchone())


def look_at_run(db: Connection, run: Run) -> tuple[Any, ...]:
    """Return values of which some change with the page of a run."""
    files = "SELECT COUNT(*), TOTAL(uploaded_at) FROM files WHERE run_id = ?"
    return (*vars(run).values(), *db.execute(files, (run.id,)).fetchone())


def look_at_project(db: Connection, project: Project) -> tuple[Any, ...]:
    """Return values of which some change with the page of a project."""
    runs = (
        "SELECT COUNT(*), MAX(id), TOTAL(attempt), TOTAL(ended_at), MAX(heartbeat_at),"
        " SUM(state = 'running') FROM runs WHERE project_id = ?"
    )
    sweeps = "SELECT COUNT(*), MAX(updated_at) FROM sweeps WHERE project_id = ?"
    return tuple(
        value
        for question in (runs, sweeps)
        for value in db.execute(question, (project.id,)).fetchone()
    )


def _read_state(db: Connection, sweep: Sweep, info: SweepInfo, seen: tuple[Any, ...]) -> SweepState:
    runs = list_runs(db, "sweep_id = ? ORDER BY id", sweep.id)
    joined = select(db, Agent, "agents WHERE sweep_id = ?", [sweep.id])
    names = {agent.id: agent.name for agent in joined}
    last = list_last_attempts(db, sweep)
    infos = [run_info(run, last.get(run.id), names) for run in runs]
    return SweepState(
        fingerprint=seen,
        infos=infos,
        results=build_results(info, infos),
        stopped_early=frozenset(run.name for run in runs if stopped_early(run, sweep)),
        agent_runs={run.agent_id: run.name for run in runs if run.state in ACTIVE and run.agent_id},
        agent_finished=Counter(run.agent_id or 0 for run in runs if run.state == "finished"),
        agent_gpus=_read_gpus(runs),
    )


def _read_gpus(runs: Sequence[Run]) -> dict[int, str]:
    newest = {run.agent_id: run for run in runs if run.agent_id and run.started_at}
    return {
        agent: describe_gpus(read_environment(run.config)) for agent, run in newest.items() if agent
    }


def sweep_info(project: Project, sweep: Sweep) -> SweepInfo:
    """Return a sweep as the ranking reads it."""
    return SweepInfo(
        path=SweepPath(project.entity, project.name, sweep.name),
        node_id="",
        title=sweep_title(sweep),
        state=sweep.state,
        config=sweep.settings,
        run_count=0,
        expected=sweep.expected,
        created_at=sweep.created_at,
        stop_reason=sweep.stop_reason or "",
    )


def run_info(run: Run, attempt: Attempt | None, agents: Mapping[int, str]) -> RunInfo:
    """Return a run as the ranking reads it, with its newest attempt."""
    return RunInfo(
        run_id=run.name,
        title=run.display_name or run.name,
        state=run.state,
        config=parse_run_config(run.config),
        summary=parse_json(run.summary),
        exit_code=run.exit_code,
        created_at=run.created_at,
        heartbeat_at=run.heartbeat_at or run.created_at,
        attempts=(attempt_info(attempt, agents),) if attempt else (),
    )


def attempt_info(attempt: Attempt, agents: Mapping[int, str]) -> AttemptInfo:
    """Return an attempt in the words of W&B's client."""
    return AttemptInfo(
        number=attempt.number,
        agent=agents.get(attempt.agent_id or 0, ""),
        assigned_at=attempt.assigned_at,
        ended_at=attempt.ended_at,
        cause=attempt.cause,
        exit_code=attempt.known_exit_code,
    )


def sweep_title(sweep: Sweep) -> str:
    """Return the name people gave to a sweep, else its id."""
    return str(sweep.display_name or sweep.settings.get("name") or sweep.name)


def stopped_early(run: Run, sweep: Sweep) -> bool:
    """Tell whether early termination asked a run to stop, which was poor beside others."""
    return run.stop_requested_at is not None and "early_terminate" in sweep.settings
