"""Text and tables of statuses, results and agents; `render` prints them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deployer.cli.output.agent_views import agent_to_plain, describe_agents
from deployer.cli.output.chart import build_chart
from deployer.cli.output.render import (
    format_parameter,
    format_value,
    say,
    show,
    show_csv,
    show_json,
    show_table,
    without_empty_columns,
)
from deployer.executors.base import Agent
from deployer.sweeps.metric_doubts import list_metric_doubts
from deployer.sweeps.results import Coverage, Results, Row, build_results
from deployer.text import format_count, format_seconds
from deployer.wandb_api.model import ENDED_SWEEP_STATES, Snapshot, SweepInfo
from deployer.watch.status import AgentStatus, Status

if TYPE_CHECKING:
    from rich.console import RenderableType

MOST_ROWS = 500  # of a ranking on the screen
STATE_ORDER = ("running", "pending", "preempting", "preempted", "failed", "crashed", "killed")


def build_status_line(status: Status, now: float, usd_per_hour: float | None = None) -> str:
    """Return a status as one line, for pipes and `--plain`; with a price, what the rest costs."""
    coverage = status.results.coverage
    total = f"/{coverage.expected}" if coverage.expected is not None else ""
    parts = [f"{coverage.finished}{total} finished"]
    # W&B's word for a run that waits for its next attempt, whatever ended the last one.
    ended = status.sweep_state in ENDED_SWEEP_STATES
    words = {} if ended else {"preempted": "to be tried again"}
    parts += [f"{status.counts[s]} {words.get(s, s)}" for s in STATE_ORDER if status.counts.get(s)]
    parts.append(_agents_phrase(status))
    if status.best is not None:
        parts.append(f"best {_metric_phrase(status, status.best)}")
    if status.ends_at is not None and not status.over and not status.trouble:
        left = max(0.0, status.ends_at - now)
        parts.append(f"about {format_seconds(left)} left")
        if usd_per_hour is not None:
            parts[-1] += f" for about ${usd_per_hour * left / 3600:.2f}"
    if status.deadline is not None and not status.over:
        parts.append(f"agents leave in {format_seconds(max(0.0, status.deadline - now))}")
    if status.sweep_state not in ("RUNNING", "PENDING"):
        parts.append(f"sweep {status.sweep_state.lower()}")
    if status.trouble:
        parts.append(f"waiting for the server ({status.trouble})")
    return ", ".join(parts)


def build_live_view(
    status: Status, now: float, usd_per_hour: float | None = None
) -> RenderableType:
    """Return the view that stays on the terminal: one line, then a line for each agent."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    head = Text(f"{status.title or status.sweep_path}  ", style="bold")
    line = Text(build_status_line(status, now, usd_per_hour))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    columns, rows = without_empty_columns(
        ("AGENT", "STATE", "RUN", status.metric or "METRIC", "NODE", "GPU", "RESTARTS", ""),
        [_agent_cells(agent) for agent in status.agents],
    )
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(Text(format_value(cell)) for cell in row))
    return Group(head, line, table) if status.agents else Group(head, line)


def show_results(results: Results, output: str) -> None:
    """Put the ranking on stdout as a table, JSON, CSV or a chart."""
    if output == "json":
        show_json(results_to_plain(results))
    elif output == "csv":
        columns, rows = build_ranking(results, exact=True)
        show_csv(columns, rows)
    else:
        if len(results.rows) > MOST_ROWS:
            say(f"the first {MOST_ROWS} of {len(results.rows)} runs; -o csv gives all")
            results = replace(results, rows=results.rows[:MOST_ROWS])
        build = build_chart if output == "chart" else partial(build_ranking, exact=False)
        show_table(*build(results))


def results_to_plain(results: Results) -> dict[str, Any]:
    """Return results with stable keys for `-o json`."""
    return {
        "sweep": results.sweep_path,
        "state": results.state,
        "stop_reason": results.stop_reason,
        "metric": results.metric,
        "goal": results.goal,
        "coverage": coverage_to_plain(results.coverage),
        "best": vars(results.best) if results.best else None,
        "warnings": list_metric_doubts(results),
        "runs": [vars(row) for row in results.rows],
        "failures": [vars(row) for row in results.failures],
    }


def coverage_to_plain(coverage: Coverage) -> dict[str, Any]:
    """Return a coverage with stable keys, what follows from it included."""
    judged = {"complete": coverage.complete, "sentence": coverage.sentence()}
    return {**vars(coverage), **judged}


def build_ranking(results: Results, exact: bool) -> tuple[list[str], list[list[object]]]:
    """Return the ranking's columns and rows; `exact` keeps seconds, titles, codes, attempts."""
    names = list(dict.fromkeys(name for row in results.rows for name in row.parameters))
    metric = results.metric or "value"
    if exact:
        columns = ["rank", "run_id", "title", "state", "duration_seconds", "exit_code"]
        return [*columns, "attempts", metric, *names], [
            [r.rank, r.run_id, r.title, r.state, r.duration_seconds, r.exit_code]
            + [len(r.attempts) or None, r.value]
            + [r.parameters.get(name) for name in names]
            for r in results.rows
        ]
    columns = ["RANK", "RUN", "STATE", metric, *names, "TIME"]
    noted = any(r.note for r in results.rows)
    return columns + ["NOTE"] * noted, [
        [r.rank, r.run_id, r.state, r.value]
        + [_parameter_cell(r, name) for name in names]
        + [format_seconds(r.duration_seconds)]
        + [r.note] * noted
        for r in results.rows
    ]


def _parameter_cell(row: Row, name: str) -> object:
    """Return a cell of a table: numbers stay, so that they are set to the right."""
    value = row.parameters.get(name)
    told = isinstance(value, str) or (value is None and name in row.parameters)
    return format_parameter(value) if told else value


def build_summary_lines(results: Results, page: str) -> list[str]:
    """Return the lines below the ranking: coverage, the best configuration, the page."""
    lines = [results.coverage.sentence()]
    if results.best is not None:
        value = f"{results.metric}={format_value(results.best.value)}"
        lines.append(f"best: {results.best.run_id} {value} with {_configuration(results.best)}")
    lines += [f"warning: {doubt}" for doubt in list_metric_doubts(results)]
    return [*lines, f"results page: {page}"]


def build_failure_line(row: Row, tail: tuple[str, ...]) -> str:
    """Return one line about a run that failed: its exit code and the last line it printed."""
    last = next((line for line in reversed(tail) if line.strip()), "")
    words = f": {last.strip()}" if last else ""
    return f"{row.state}: {row.run_id}{_ending(row)} ({_configuration(row)}){words}"


def _ending(row: Row) -> str:
    """Return how a run failed: its exit code and how early, unless it never had enough memory."""
    causes = [attempt.cause for attempt in row.attempts]
    if causes[-1:] == ["OOM"]:
        return f", {causes.count('OOM')} times out of memory"
    early = " before wandb.init" if causes[-1:] == ["never started"] else ""
    return (f" with exit code {row.exit_code}" if row.exit_code is not None else "") + early


def build_breaker_lines(reason: str, first: Row, tail: tuple[str, ...]) -> list[str]:
    """Return why the server stopped the sweep, and what its first failing run printed last."""
    lines = [f"stopped: {reason}", build_failure_line(first, ())]
    return lines + [f"  | {line}" for line in tail if line.strip()]


def _agents_phrase(status: Status) -> str:
    count = status.living_agents
    words = format_count(count, "agent")
    return f"{words} and {status.other_agents} elsewhere" if status.other_agents else words


def _metric_phrase(status: Status, row: Row) -> str:
    return f"{status.metric}={format_value(row.value)} ({row.run_id})"


def _agent_cells(agent: AgentStatus) -> tuple[object, ...]:
    title = agent.run_title if agent.run_title != agent.run_id else None
    run = " ".join(filter(None, (agent.run_id, title)))
    code = f"exit {agent.exit_code}" if agent.exit_code else ""
    return (
        agent.name,
        agent.state,
        run,
        agent.value,
        agent.node,
        agent.gpu,
        agent.restarts or None,
        " ".join(filter(None, (code, agent.reason))),
    )


def _configuration(row: Row) -> str:
    return ", ".join(f"{k}={_word(v)}" for k, v in row.parameters.items()) or "no parameters"


def _word(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list | dict) else format_parameter(value)


def sweep_to_plain(info: SweepInfo) -> dict[str, Any]:
    """Return a sweep with stable keys for `-o json`."""
    return {
        "sweep": str(info.path),
        "title": info.title,
        "state": info.state,
        "method": info.method,
        "metric": info.metric_name,
        "goal": info.metric_goal,
        "runs": info.run_count,
        "expected": info.expected,
        "created_at": info.created_at,
    }


def show_sweep(snapshot: Snapshot, agents: Sequence[Agent] | None, page: str, output: str) -> None:
    """Put one sweep on stdout: what it is, how far it is, who works on it, where its page is."""
    info = snapshot.sweep
    coverage = build_results(info, snapshot.runs).coverage
    if output == "json":
        plain = {"coverage": vars(coverage), "page": page, "config": info.config}
        known = None if agents is None else [agent_to_plain(agent) for agent in agents]
        show_json({**sweep_to_plain(info), **plain, "agents": known})
        return
    metric = f"{info.metric_goal} {info.metric_name}" if info.metric_name else "none"
    lines = {
        "sweep": str(info.path),
        "title": info.title,
        "state": info.state,
        "method": info.method,
        "metric": metric,
        "coverage": coverage.sentence(),
        **({"agents": describe_agents(agents)} if agents is not None else {}),
        "results page": page,
    }
    for name, value in lines.items():
        show(f"{name}: {value}")
