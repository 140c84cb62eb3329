"""Reads a sweep for a report, in a bounded number of requests, without secret values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployer.analysis.repeats import note_curves
from deployer.config.redaction import find_hidden, redact, redact_text
from deployer.model import Run, Sweep, SweepPath
from deployer.page.curves import EPOCH_NAMES, POINTS_PER_CURVE, build_curve, describe_curve
from deployer.page.run_document import describe_gpus
from deployer.page.sweep_document import (
    AgentNow,
    Doing,
    SweepSource,
    build_importance_document,
    build_sweep_document,
    choose_curves,
)
from deployer.sweeps.recount import read_dropped, read_tied_curves
from deployer.sweeps.rerun import get_full_snapshot
from deployer.sweeps.results import (
    ACTIVE_STATES,
    Results,
    Row,
    build_results,
    find_last_words,
    is_stopped_early,
    metric_value,
)
from deployer.wandb_api.history import get_sampled_rows
from deployer.wandb_api.model import AgentInfo, Snapshot
from deployer.wandb_api.operations import get_log_tail
from deployer.wandb_api.server import Server

DOING = {"FINISHED": Doing.ENDED, "KILLED": Doing.ENDED, "CRASHED": Doing.SILENT}
# Several times the displayed points, since a server's random sample is not evenly spread.
SAMPLES = 5 * POINTS_PER_CURVE
FAILURES_EXPLAINED = 20  # a request each
TAIL_LINES = 30  # wandb's footer may be this long
MOST_LETTERS = 300  # of a run's last line


def list_agents(snapshot: Snapshot) -> list[AgentNow]:
    """Return the agents; a server without attempts does not report which runs were whose."""
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
    """Return the id of a run's last agent: of all with its name, the first one alive since."""
    begun = int(run.attempts[-1].assigned_at or 0) if run.attempts else 0  # heartbeats are rounded
    named = sorted((a.heartbeat_at or 0.0, a.agent_id) for a in agents if a.name == find_agent(run))
    since = [agent_id for heartbeat_at, agent_id in named if heartbeat_at >= begun]
    return since[0] if since else named[-1][1] if named else ""


def find_agent(run: Run) -> str:
    """Return the name of a run's last agent; empty if unknown."""
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


def redact_sweep(sweep: Sweep) -> Sweep:
    return replace(sweep, config=redact(sweep.config))


def redact_run(run: Run) -> Run:
    return replace(run, config=redact(run.config))


def redact_results(results: Results) -> Results:
    """Return results without secrets in their rows.

    Count configurations before: two that differ only in a secret are still two.
    """
    return replace(
        results,
        rows=tuple(_redact_row(row) for row in results.rows),
        best=_redact_row(results.best) if results.best else None,
        failures=tuple(_redact_row(row) for row in results.failures),
    )


def _redact_row(row: Row) -> Row:
    return replace(row, parameters=redact(row.parameters), summary=redact(row.summary))


@dataclass(frozen=True)
class Material:
    """A sweep at one moment, without secrets.

    `document` is its page's, `curves` are those of its metric, `importance` is of all runs.
    `last_words` has the last output of the first failed runs.
    """

    source: SweepSource
    document: Mapping[str, Any]
    curves: Sequence[Mapping[str, Any]]
    importance: Mapping[str, Any]
    last_words: Mapping[str, str]
    server_url: str
    page_url: str

    @property
    def results(self) -> Results:
        return self.source.results


def collect(server: Server, path: SweepPath, now: float) -> Material:
    """Read a sweep with its follow-ups; raises WandbError. `now` is in epoch seconds."""
    snapshot = get_full_snapshot(server, path)
    results = read_dropped(server, build_results(snapshot.sweep, snapshot.runs))
    results = note_curves(results, read_tied_curves(server, path, results))
    source = build_source(snapshot, results, now)
    return Material(
        source=source,
        document=build_sweep_document(source),
        curves=read_curves(server, path, choose_runs(source), results.metric or ""),
        importance=build_importance_document(results),
        last_words=read_last_words(server, path, results.failures, snapshot.runs),
        server_url=server.url,
        page_url=server.sweep_url(path),
    )


def build_source(snapshot: Snapshot, results: Results, now: float) -> SweepSource:
    """Return the input of a sweep's document, without secrets or actions."""
    early = [run.run_id for run in snapshot.runs if is_stopped_early(snapshot.sweep, run.state)]
    return SweepSource(
        sweep=redact_sweep(snapshot.sweep),
        runs=[redact_run(run) for run in snapshot.runs],
        results=redact_results(results),
        agents=list_agents(snapshot),
        now=now,
        stopped_early=early,
    )


def read_curves(
    server: Server, path: SweepPath, runs: Sequence[Run], metric: str
) -> list[dict[str, Any]]:
    """Read the curves of a metric for these runs, without empty ones; raises WandbError."""
    logged = [run for run in runs if metric_value(run.summary, metric) is not None]
    keys = {run.run_id: [metric, *_list_axes(run)] for run in logged}
    rows = get_sampled_rows(server.client, path, keys, SAMPLES)
    # Values in the summary need not be in the same rows as the metric.
    bare = {run: [metric, "_step"] for run, names in keys.items() if not rows[run] and names[2:]}
    rows |= get_sampled_rows(server.client, path, bare, SAMPLES)
    curves = [{"run": run, **describe_curve(build_curve(rows[run], metric))} for run in keys]
    return [curve for curve in curves if curve["steps"]]


def read_last_words(
    server: Server, path: SweepPath, failures: Sequence[Row], runs: Sequence[Run]
) -> dict[str, str]:
    """Read the last line of the first failed runs, if the server has it.

    `runs` must not be redacted yet, because their secrets are searched for in the output.
    """
    said = {}
    configs = {run.run_id: run.config for run in runs}
    for row in failures[:FAILURES_EXPLAINED]:
        if line := find_last_words(get_log_tail(server.client, path, row.run_id, TAIL_LINES)):
            said[row.run_id] = redact_text(line, find_hidden(configs[row.run_id]))[:MOST_LETTERS]
    return said


def choose_runs(source: SweepSource) -> list[Run]:
    """Return the runs with visible curves; none without a metric."""
    known = {run.run_id: run for run in source.runs}
    return [known[name] for name in choose_curves(source.results)] if source.results.metric else []


def _list_axes(run: Run) -> list[str]:
    epoch = next((name for name in EPOCH_NAMES if name in run.summary), None)
    return [name for name in ("_step", "_runtime", epoch) if name and name in run.summary]
