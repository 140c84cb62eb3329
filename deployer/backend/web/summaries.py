"""Rows of the database as the plain dicts that the pages show.

Ranking and coverage are `deployer.sweeps.results`, so that a page and the terminal never disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deployer.backend.db.attempts import Attempt
from deployer.backend.db.projects import Project
from deployer.backend.db.runs import ACTIVE, Run
from deployer.backend.db.sweeps import Sweep
from deployer.backend.web.command_line import build_command_line
from deployer.sweeps.configurations import flatten_configuration
from deployer.sweeps.endings import describe_attempt, describe_ending
from deployer.sweeps.metrics import rank_key
from deployer.sweeps.parameters.parse import parse_parameters
from deployer.sweeps.results import Coverage, Results, Row, build_results, run_seconds
from deployer.wandb_api.model import Attempt as AttemptInfo
from deployer.wandb_api.model import RunInfo, SweepInfo, SweepPath, parse_json, parse_run_config

CURVES_SHOWN = 100
ACTIVE_CURVES_SHOWN = 30


def summarise_results(
    project: Project, sweep: Sweep, runs: Sequence[Run], attempts: Mapping[int, Attempt]
) -> Results:
    """Return the ranking and coverage of a sweep; `attempts` are the newest by the run's row id."""
    info = SweepInfo(
        path=SweepPath(project.entity, project.name, sweep.name),
        node_id="",
        title=sweep_title(sweep),
        state=sweep.state,
        config=sweep.settings,
        run_count=len(runs),
        expected=sweep.expected,
        created_at=sweep.created_at,
    )
    return build_results(info, [run_info(run, attempts.get(run.id)) for run in runs])


def run_info(run: Run, attempt: Attempt | None = None) -> RunInfo:
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
        attempts=(_attempt_info(attempt),) if attempt else (),
    )


def _attempt_info(attempt: Attempt) -> AttemptInfo:
    return AttemptInfo(
        number=attempt.number,
        agent="",
        assigned_at=attempt.assigned_at,
        ended_at=attempt.ended_at,
        cause=attempt.cause,
        exit_code=attempt.known_exit_code,
    )


def sweep_title(sweep: Sweep) -> str:
    """Return the name people gave to a sweep, else its id."""
    return str(sweep.display_name or sweep.settings.get("name") or sweep.name)


def sweep_outcome(sweep: Sweep, coverage: Coverage) -> str:
    """Return a sweep's state as people see it: one that ended with failed or lost runs failed."""
    short = coverage.failed + coverage.lost > 0
    return "failed" if sweep.state == "FINISHED" and short else sweep.state.lower()


def stopped_early(run: Run, sweep: Sweep) -> bool:
    """Tell whether early termination asked a run to stop, which was poor beside others."""
    return run.stop_requested_at is not None and "early_terminate" in sweep.settings


def describe_sweep(sweep: Sweep, results: Results) -> dict[str, Any]:
    """Return a sweep's head: what it is and how far it is."""
    coverage = results.coverage
    return {
        "id": sweep.name,
        "title": sweep_title(sweep),
        "state": sweep_outcome(sweep, coverage),
        "reason": sweep.stop_reason,
        "method": sweep.method,
        "metric": results.metric,
        "goal": results.goal,
        "created_at": sweep.created_at,
        "progress": {
            "expected": coverage.expected,
            "finished": coverage.finished,
            "running": coverage.running,
            "failed": coverage.failed,
            "lost": coverage.lost,
            "duplicates": coverage.duplicates,
        },
        "best": _describe_best(results.best),
    }


def _describe_best(best: Row | None) -> dict[str, Any] | None:
    return {"run": best.run_id, "title": best.title, "value": best.value} if best else None


def describe_table(
    sweep: Sweep, results: Results, runs: Sequence[Run], agents: dict[int, str]
) -> dict[str, Any]:
    """Return the runs' table: columns of what the sweep varies, and apart what it holds fixed."""
    names = {name: None for row in results.rows for name in row.parameters}
    fixed = [name for name in names if _is_fixed(name, _fixed_parameters(sweep))]
    columns = [name for name in names if name not in fixed]
    by_name = {run.name: run for run in runs}
    first = results.rows[0].parameters if results.rows else {}
    return {
        "columns": columns,
        "fixed": {name: first.get(name) for name in fixed},
        "runs": [
            {
                **_describe_row(row, by_name[row.run_id], columns, agents),
                "stopped_early": stopped_early(by_name[row.run_id], sweep),
            }
            for row in results.rows
        ],
    }


def _describe_row(
    row: Row, run: Run, columns: Iterable[str], agents: dict[int, str]
) -> dict[str, Any]:
    return {
        "id": row.run_id,
        "title": row.title,
        "rank": row.rank,
        "state": row.state,
        "note": row.note,
        "parameters": [row.parameters.get(name) for name in columns],
        "value": row.value,
        "seconds": row.duration_seconds,
        "agent": agents.get(run.agent_id or 0),
        "exit_code": row.exit_code,
        "attempt": run.attempt,
        "ordinal": run.ordinal,
    }


def _fixed_parameters(sweep: Sweep) -> set[str]:
    space, _ = parse_parameters(sweep.settings.get("parameters", {}))
    return {".".join(form.path) for form in space.parameters if form.grid_size == 1}


def _is_fixed(column: str, fixed: set[str]) -> bool:
    """Tell whether a column, perhaps an entry of a mapping, belongs to a fixed parameter."""
    ends = [index for index, letter in enumerate(column) if letter == "."]
    return column in fixed or any(column[:end] in fixed for end in ends)


def describe_command(sweep: Sweep, runs: Iterable[Run], best: Row | None) -> str | None:
    """Return the best run's command line."""
    for run in runs:
        if best and run.name == best.run_id:
            return build_command_line(sweep.settings, run.assigned_args)
    return None


def choose_curves(results: Results) -> list[str]:
    """Return the ids of the runs whose curves are shown: some that are active, then the best."""
    active = [row.run_id for row in results.rows if row.state in ACTIVE][:ACTIVE_CURVES_SHOWN]
    ranked = sorted(results.rows, key=lambda row: rank_key(row.value, results.goal))
    rest = [row.run_id for row in ranked if row.run_id not in active]
    return rest[: CURVES_SHOWN - len(active)] + active


def describe_run(run: Run, sweep: Sweep | None, attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Return a run's head, configuration and summary; names are joined by dots."""
    info = run_info(run, attempts[-1] if attempts else None)
    return {
        "id": run.name,
        "title": info.title,
        "state": run.state,
        "note": describe_ending(run.state, info.attempts, bool(sweep and sweep.ended)),
        "exit_code": run.exit_code,
        "attempt": run.attempt,
        "seconds": run_seconds(info),
        "created_at": run.created_at,
        "host": run.host,
        "stopped_early": bool(sweep and stopped_early(run, sweep)),
        "sweep": {"id": sweep.name, "title": sweep_title(sweep)} if sweep else None,
        "command": build_command_line(sweep.settings, run.assigned_args) if sweep else None,
        "config": flatten_configuration(info.config, tuple(info.config)),
        "summary": _visible(flatten_configuration(info.summary, tuple(info.summary))),
    }


def describe_attempts(attempts: Sequence[Attempt], agents: dict[int, str]) -> list[dict[str, Any]]:
    """Return how each attempt of a run ended, and under which agent."""
    return [
        {
            "number": row.number,
            "agent": agents.get(row.agent_id or 0),
            "cause": row.cause,
            "words": describe_attempt(row.cause, row.known_exit_code) if row.cause else "",
            "exit_code": row.known_exit_code,
            "output": row.output,
            "began_at": row.assigned_at,
            "ended_at": row.ended_at,
        }
        for row in attempts
    ]


def _visible(flat: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flat.items() if name[:1] != "_" and "._" not in name}


def console_text(lines: Iterable[str]) -> list[str]:
    """Return console lines as text; the SDK sends each as JSON, or plain if it is old."""
    return [str(parse_json(line).get("content", line)) for line in lines]
