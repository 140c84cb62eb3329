"""Text and tables of statuses, results and agents; `render` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deployer.cli.output.agent_views import agent_to_plain, describe_agents
from deployer.cli.output.ranking_view import (
    View,
    build_lead_line,
    groups_to_plain,
    show_ranking,
)
from deployer.cli.output.render import show, show_json
from deployer.config.redaction import redact
from deployer.model import Agent, Sweep
from deployer.sweeps.doubts import list_doubts
from deployer.sweeps.endings import FIXES, WORDS, find_last_words, name_signal
from deployer.sweeps.results import Coverage, Results, Row, build_results
from deployer.sweeps.wording import describe_configuration
from deployer.text import format_count, format_value
from deployer.wandb_api.model import Snapshot


def show_results(results: Results, output: str, view: View = View()) -> None:
    """Put the ranking on stdout as a table, JSON or CSV."""
    if output == "json":
        show_json(results_to_plain(results, view))
    else:
        show_ranking(results, output, view)


def results_to_plain(results: Results, view: View = View()) -> dict[str, Any]:
    """Return results with stable keys for `-o json`."""
    return {
        **({"by": view.by} if view.by else {}),
        **(groups_to_plain(results) if view.grouped else {}),
        "sweep": results.sweep_path,
        "state": results.state,
        "stop_reason": results.stop_reason,
        "metric": results.metric,
        "goal": results.goal,
        "coverage": coverage_to_plain(results.coverage),
        "best": row_to_plain(results.best) if results.best else None,
        "warnings": list_doubts(results),
        "runs": [row_to_plain(row) for row in results.rows],
        "failures": [row_to_plain(row) for row in results.failures],
    }


def row_to_plain(row: Row) -> dict[str, Any]:
    """Return a run with stable keys, without values of secrets."""
    plain = {"parameters": redact(row.parameters), "summary": redact(row.summary)}
    return {**vars(row), **plain}


def coverage_to_plain(coverage: Coverage) -> dict[str, Any]:
    """Return a coverage with stable keys, what follows from it included."""
    judged = {"complete": coverage.complete, "sentence": coverage.sentence()}
    return {**vars(coverage), **judged}


def build_summary_lines(results: Results, page: str, view: View = View()) -> list[str]:
    """Return the lines below the ranking: coverage, the best configuration, its lead, the page."""
    lines = [results.coverage.sentence()]
    if results.best is not None:
        value = f"{results.metric}={format_value(results.best.value)}"
        configuration = describe_configuration(results.best, results.rows)
        lines.append(f"best: {results.best.run_id} {value} with {configuration}")
    if lead := build_lead_line(results, view):
        lines.append(lead)
    lines += [f"warning: {doubt}" for doubt in list_doubts(results)]
    return [*lines, f"results page: {page}"]


def build_failure_line(row: Row, tail: tuple[str, ...]) -> str:
    """Return one line about a run that failed: its exit code and the last line it printed."""
    last = find_last_words(tail)
    words = f": {last}" if last else ""
    return f"{row.state}: {row.run_id}{_ending(row)} ({describe_configuration(row)}){words}"


def _ending(row: Row) -> str:
    """Return how a run failed: its exit code and how early, unless it was killed each time."""
    causes = [attempt.cause for attempt in row.attempts]
    last = causes[-1] if causes else None
    if last == "OOM":
        return f", {format_count(causes.count(last), 'time')} out of memory"
    if last == "signal":
        return f", killed {format_count(causes.count(last), 'time')}, at last without a new step"
    early = " before wandb.init" if last in ("never started", "no server") else ""
    if last == "own failure" and row.exit_code == 0:
        early = " in the middle of its run"
    said = f": {WORDS[last]}" if last in FIXES else early
    if row.exit_code is None:
        return said
    name = name_signal(row.exit_code)
    return f" with exit code {row.exit_code}{f' ({name})' if name else ''}{said}"


def build_fix_lines(failures: Sequence[Row]) -> list[str]:
    """Return one hint for each kind of failure that no retry passes."""
    causes = {row.attempts[-1].cause: None for row in failures if row.attempts}
    return [f"hint: {FIXES[cause]}" for cause in causes if cause in FIXES]


def build_breaker_lines(reason: str, first: Row, tail: tuple[str, ...]) -> list[str]:
    """Return why the server stopped the sweep, and what its first failing run printed last."""
    lines = [f"stopped: {reason}", build_failure_line(first, ())]
    return lines + [f"  | {line}" for line in tail if line.strip()]


def sweep_to_plain(info: Sweep) -> dict[str, Any]:
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
