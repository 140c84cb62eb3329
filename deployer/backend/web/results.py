"""The pages' data of sweeps and runs, cached until they change.

`deployer.sweeps.results` computes ranking and coverage, so that a page and the terminal agree.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deployer.backend.db.accounts import ProjectRow
from deployer.backend.db.attempts import AttemptRow, list_attempts, list_sweep_attempts
from deployer.backend.db.lines import last_lines
from deployer.backend.db.rows import Connection, find_all, select
from deployer.backend.db.runs import ACTIVE, AgentRow, RunRow, list_agents, mark_of
from deployer.backend.db.sweeps import SweepRow
from deployer.backend.scheduling.context import Backend
from deployer.model import Attempt, Run, Sweep, SweepPath
from deployer.page.run_document import describe_gpus
from deployer.page.strict_json import Encoded, encode_values
from deployer.page.sweep_document import (
    AgentNow,
    Cells,
    Doing,
    SweepSource,
    build_sweep_now,
    build_sweep_table,
    describe_head,
)
from deployer.sweeps.doubts import note_dropped
from deployer.sweeps.results import Results, build_results
from deployer.wandb_api.model import parse_environment, parse_json, parse_run_config

# Columns of runs that may change without a new revision of their sweep.
BESIDES = "exit_code, ended_at, queued, display_name"
FINGERPRINT = (
    "SELECT COUNT(*), TOTAL(exit_code), TOTAL(ended_at), TOTAL(queued),"
    " TOTAL(length(display_name)) FROM runs WHERE sweep_id = ?"
)

REMEMBERED_SWEEPS = 20
REMEMBERED_HEADS = 10_000  # about 1 kB each
MOST_NAMED = 500  # if more runs have changed, read all at once
# The actions allowed in each state of a sweep, and the state after each action.
STATES = {"pause": "PAUSED", "resume": "RUNNING", "stop": "FINISHED", "cancel": "CANCELED"}
ACTIONS = {
    "PENDING": ("pause", "stop", "cancel"),
    "RUNNING": ("pause", "stop", "cancel"),
    "PAUSED": ("resume", "stop", "cancel"),
}


def fingerprint(db: Connection, sweep: SweepRow) -> tuple[Any, ...]:
    """Return a fingerprint that changes whenever the content of a sweep's page does."""
    mark = mark_of(db, sweep.id)
    row = db.execute(FINGERPRINT, (sweep.id,)).fetchone()
    head = (sweep.state, sweep.config, sweep.display_name, sweep.expected, sweep.stop_reason)
    return (*head, mark, *row)


def fingerprint_sweep(db: Connection, sweep: SweepRow) -> tuple[Any, ...]:
    """Like `fingerprint`, but also changes with the sweep's agents."""
    agents = "SELECT COUNT(*), COUNT(ended_at) FROM agents WHERE sweep_id = ?"
    return (*fingerprint(db, sweep), *db.execute(agents, (sweep.id,)).fetchone())


def fingerprint_run(db: Connection, run: RunRow) -> tuple[Any, ...]:
    files = "SELECT COUNT(*), TOTAL(uploaded_at) FROM files WHERE run_id = ?"
    return (*vars(run).values(), *db.execute(files, (run.id,)).fetchone())


def fingerprint_project(db: Connection, project: ProjectRow) -> tuple[Any, ...]:
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


@dataclass(frozen=True)
class RunState:
    """A run's snapshot: its row, its data for the ranking, its visible GPUs."""

    key: tuple[Any, ...]
    run: RunRow
    info: Run
    gpus: str


@dataclass(frozen=True)
class SweepState:
    """A snapshot of a sweep's runs."""

    fingerprint: tuple[Any, ...]
    sweep: Sweep
    runs: Mapping[int, RunState]
    infos: Sequence[Run]
    results: Results
    stopped_early: frozenset[str]
    cells: Cells

    @cached_property
    def table(self) -> dict[str, Encoded]:
        source = SweepSource(self.sweep, self.infos, self.results, (), 0.0, self.stopped_early)
        return encode_values(build_sweep_table(source, self.cells))


class SweepReader:
    """Reads sweeps; caches runs and reads only changed ones again."""

    def __init__(self, backend: Backend, most_heads: int = REMEMBERED_HEADS) -> None:
        self._backend, self._most_heads = backend, most_heads
        self._lock = threading.Lock()
        self._known: OrderedDict[int, SweepState] = OrderedDict()
        self._heads: OrderedDict[int, tuple[tuple[Any, ...], dict[str, Any]]] = OrderedDict()

    def head(self, db: Connection, project: ProjectRow, sweep: SweepRow) -> dict[str, Any]:
        """Return a sweep's line in a list; cached for an ended sweep."""
        seen = fingerprint(db, sweep)
        with self._lock:
            known, head = self._heads.pop(sweep.id, (None, {}))
        if known != seen:
            head = describe_head(self.read(db, project, sweep))
        if sweep.ended:
            with self._lock:
                self._heads[sweep.id] = (seen, head)
                while len(self._heads) > self._most_heads:
                    self._heads.popitem(last=False)
        return head

    def read(self, db: Connection, project: ProjectRow, sweep: SweepRow) -> SweepSource:
        return self._source(db, project, sweep, self._state(db, project, sweep))

    def document(self, db: Connection, project: ProjectRow, sweep: SweepRow) -> dict[str, Any]:
        state = self._state(db, project, sweep)
        with self._lock:  # states of a sweep share cells
            table = state.table
        return {**build_sweep_now(self._source(db, project, sweep, state)), **table}

    def _source(
        self, db: Connection, project: ProjectRow, sweep: SweepRow, state: SweepState
    ) -> SweepSource:
        held = {one.run.agent_id: one for one in state.runs.values() if one.run.started_at}
        at_work = {
            one.run.agent_id: one.run.name
            for one in state.runs.values()
            if one.run.state in ACTIVE and one.run.agent_id
        }
        finished = Counter(
            one.run.agent_id for one in state.runs.values() if one.run.state == "finished"
        )
        return SweepSource(
            sweep=sweep_info(project, sweep),
            runs=state.infos,
            results=state.results,
            agents=[
                self._agent(
                    sweep,
                    agent,
                    run_id=at_work.get(agent.id),
                    finished=finished[agent.id],
                    gpus=held[agent.id].gpus if agent.id in held else "",
                )
                for agent in list_agents(db, sweep)
            ],
            now=self._backend.now(),
            stopped_early=state.stopped_early,
            actions=ACTIONS.get(sweep.state, ()),
        )

    def _state(self, db: Connection, project: ProjectRow, sweep: SweepRow) -> SweepState:
        seen = fingerprint(db, sweep)
        with self._lock:
            known = self._known.pop(sweep.id, None)
            if known is None or known.fingerprint != seen:
                runs = _read_runs(db, sweep, known.runs if known else {})
                info = sweep_info(project, sweep)
                infos = [one.info for one in runs.values()]
                ids = {one.run.name: number for number, one in runs.items()}

                def read_tail(name: str, lines: int) -> list[str]:
                    return [text for _, text in last_lines(db, ids[name], "output", lines)]

                results = note_dropped(build_results(info, infos), read_tail)
                early = frozenset(
                    one.run.name for one in runs.values() if stopped_early(one.run, sweep)
                )
                cells = known.cells if known else Cells()
                known = SweepState(seen, info, runs, infos, results, early, cells)
            self._known[sweep.id] = known
            while len(self._known) > REMEMBERED_SWEEPS:
                self._known.popitem(last=False)
        return known

    def _agent(
        self, sweep: SweepRow, agent: AgentRow, run_id: str | None, finished: int, gpus: str
    ) -> AgentNow:
        silent = self._backend.presence.silence_seconds("agent", agent.id)
        quiet = silent > self._backend.patience.silence_seconds
        doing = Doing.WORKING if run_id else Doing.WAITING
        if agent.ended_at is not None or (quiet and sweep.ended):
            doing = Doing.ENDED
        elif quiet:
            doing = Doing.SILENT
        return AgentNow(
            name=agent.name,
            host=agent.host,
            doing=doing,
            run_id=run_id if doing is Doing.WORKING else None,
            finished=finished,
            heartbeat_at=agent.heartbeat_at,
            gpus=gpus,
            node=agent.node,
        )


def _read_runs(
    db: Connection, sweep: SweepRow, known: Mapping[int, RunState]
) -> dict[int, RunState]:
    """Return the runs of a sweep, oldest first; reuse known ones that have not changed."""
    columns = f"SELECT id, revision, {BESIDES} FROM runs WHERE sweep_id = ? ORDER BY id"
    keys = {row[0]: tuple(row) for row in db.execute(columns, (sweep.id,))}
    changed = [name for name, key in keys.items() if name not in known or known[name].key != key]
    many = len(changed) > MOST_NAMED
    chosen = "" if many else f"AND id IN ({','.join(map(str, changed))})"
    fresh = {run.id: run for run in select(db, RunRow, f"WHERE sweep_id = ? {chosen}", sweep.id)}
    attempts = (
        list_sweep_attempts(db, sweep)
        if many
        else {run.id: list_attempts(db, run) for run in fresh.values()}
    )
    agents = {one.id: one.name for one in find_all(db, AgentRow, sweep_id=sweep.id)}
    read = {
        name: RunState(
            keys[name],
            fresh[name],
            run_info(fresh[name], attempts.get(name, ()), agents),
            _gpus_of(fresh[name]),
        )
        for name in changed
    }
    return {name: read.get(name) or known[name] for name in keys}


def _gpus_of(run: RunRow) -> str:
    return describe_gpus(parse_environment(run.config)) if '"gpu"' in run.config else ""


def sweep_info(project: ProjectRow, sweep: SweepRow) -> Sweep:
    return Sweep(
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


def run_info(run: RunRow, attempts: Sequence[AttemptRow], agents: Mapping[int, str]) -> Run:
    """Convert a run for the ranking, with its attempts, oldest first."""
    return Run(
        run_id=run.name,
        title=run.display_name or run.name,
        state=run.state,
        config=parse_run_config(run.config),
        summary=parse_json(run.summary),
        exit_code=run.exit_code,
        created_at=run.created_at,
        heartbeat_at=run.heartbeat_at or run.created_at,
        attempts=tuple(attempt_info(attempt, agents) for attempt in attempts),
        apart=tuple(run.apart_names),
    )


def attempt_info(attempt: AttemptRow, agents: Mapping[int, str]) -> Attempt:
    """Convert an attempt to the type of W&B's client."""
    return Attempt(
        number=attempt.number,
        agent=agents.get(attempt.agent_id or 0, ""),
        assigned_at=attempt.assigned_at,
        ended_at=attempt.ended_at,
        cause=attempt.cause,
        exit_code=attempt.known_exit_code,
    )


def sweep_title(sweep: SweepRow) -> str:
    """Return the sweep's display name, else its id."""
    return sweep.title or sweep.name


def stopped_early(run: RunRow, sweep: SweepRow) -> bool:
    """Return True if early termination stopped the run, which was worse than others."""
    asked = run.stop_requested_at is not None and "early_terminate" in sweep.settings
    return asked and run.state == "killed"
