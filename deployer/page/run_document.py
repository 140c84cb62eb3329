"""The documents of a run, and of several runs side by side; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.model import Attempt, Run, SweepPath
from deployer.page.curves import EPOCH_NAMES, Curve, build_all_curves, describe_curve
from deployer.page.media import list_media
from deployer.page.summary import flatten_summary
from deployer.sweeps.configurations import flatten_configuration
from deployer.sweeps.endings import describe_attempt, describe_ending
from deployer.sweeps.results import ACTIVE_STATES, run_seconds
from deployer.text import format_count
from deployer.wandb_api.model import parse_json

Rows = Sequence[Mapping[str, Any]]

# What of a system's figures is worth seeing first.
SYSTEM_ORDER = ("gpu", "cpu", "memory", "proc", "disk", "network")
# What the SDK says of machine and code, in the order in which it is shown.
ENVIRONMENT = (
    "host", "gpu", "gpu_count", "cpu_count", "memory", "os", "python", "cudaVersion", "program",
    "codePath", "git", "executable", "args", "startedAt", "root",
)  # fmt: skip


@dataclass(frozen=True)
class RunSource:
    """What the document of a run is made of.

    `history` and `events` are rows as they were logged, `console` its last lines, `environment`
    what the SDK told of machine and code. `outputs` are what each attempt printed last, by number.
    """

    path: SweepPath | None
    entity: str
    project: str
    run: Run
    sweep_title: str = ""
    metric: str | None = None
    sweep_ended: bool = False
    history: Rows = ()
    events: Rows = ()
    console: Sequence[str] = ()
    files: Sequence[Mapping[str, Any]] = ()
    artifacts: Sequence[Mapping[str, Any]] = ()
    environment: Mapping[str, Any] | None = None
    outputs: Mapping[int, str | None] | None = None
    command: str | None = None
    host: str | None = None
    stopped_early: bool = False
    patch: str = ""


def build_run_document(source: RunSource) -> dict[str, Any]:
    """Return a run's page: how it went and ended, its curves, configuration, console and files."""
    run = source.run
    return {
        "kind": "run",
        "entity": source.entity,
        "project": source.project,
        **_describe_head(source),
        "command": source.command,
        "config": describe_config(run.config),
        "summary": flatten_summary(run.summary),
        "attempts": _describe_attempts(run.attempts, source.outputs or {}),
        "curves": _order_curves(build_all_curves(source.history), source.metric),
        "system": describe_system(source.events),
        "media": list_media(source.history, source.files),
        "console": console_text(source.console),
        "files": list(source.files),
        "artifacts": list(source.artifacts),
        "environment": _describe_environment(source.environment or {}),
        "patch": source.patch,
        "active": run.state in ACTIVE_STATES,
    }


def build_comparison(
    entity: str,
    project: str,
    runs: Sequence[Run],
    metrics: Sequence[str],
    missing: Sequence[str] = (),
) -> dict[str, Any]:
    """Return runs side by side: each parameter and metric with a value for each run.

    `missing` are ids that were asked for, and of which there is no run.
    """
    configs = [describe_config(run.config) for run in runs]
    summaries = [flatten_summary(run.summary) for run in runs]
    return {
        "kind": "compare",
        "entity": entity,
        "project": project,
        "title": f"{format_count(len(runs), 'run')} compared",
        "missing": list(missing),
        "runs": [
            {
                "id": run.run_id,
                "title": run.title or run.run_id,
                "state": run.state,
                "seconds": run_seconds(run),
            }
            for run in runs
        ],
        "config": _lay_side_by_side(configs),
        "summary": _lay_side_by_side(summaries),
        "metrics": list(metrics),
        "active": any(run.state in ACTIVE_STATES for run in runs),
    }


def describe_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with its names joined by dots."""
    return flatten_configuration(config, tuple(config))


def describe_system(events: Rows) -> list[dict[str, Any]]:
    """Return a curve of each figure of the machine, GPUs first; x is seconds since the start."""
    rows = [
        {"_step": row.get("_runtime", number), **_system_numbers(row)}
        for number, row in enumerate(events)
    ]
    curves = _describe_curves(build_all_curves(rows))
    return sorted(curves, key=lambda curve: (_system_place(curve["metric"]), curve["metric"]))


def console_text(lines: Sequence[str]) -> list[str]:
    """Return console lines as text; the SDK sends each as JSON, or plain if it is old."""
    return [str(parse_json(line).get("content", line)) for line in lines]


def describe_gpus(environment: Mapping[str, Any]) -> str:
    """Return the GPUs that a run saw, such as `2 x NVIDIA H100`."""
    name, count = environment.get("gpu"), environment.get("gpu_count")
    if not name:
        return ""
    return f"{count} x {name}" if isinstance(count, int) and count > 1 else str(name)


def _describe_head(source: RunSource) -> dict[str, Any]:
    run, path = source.run, source.path
    last = run.attempts[-1] if run.attempts else None
    sweep = {"id": path.sweep_id, "title": source.sweep_title} if path else None
    return {
        "id": run.run_id,
        "title": run.title,
        "state": run.state,
        "note": describe_ending(run.state, run.attempts[-1:], source.sweep_ended),
        "exit_code": run.exit_code,
        "attempt": last.number if last else 1,
        "seconds": run_seconds(run),
        "created_at": run.created_at,
        "host": source.host,
        "stopped_early": source.stopped_early,
        "sweep": sweep,
    }


def _describe_curves(curves: Mapping[str, Curve]) -> list[dict[str, Any]]:
    return [{"metric": name, **describe_curve(curve)} for name, curve in curves.items()]


def _order_curves(curves: Mapping[str, Curve], metric: str | None) -> list[dict[str, Any]]:
    """Return the sweep's own metric first, and last what only counts epochs."""

    def place(curve: Mapping[str, Any]) -> tuple[bool, bool, str]:
        return curve["metric"] != metric, curve["metric"] in EPOCH_NAMES, curve["metric"]

    return sorted(_describe_curves(curves), key=place)


def _describe_attempts(
    attempts: Sequence[Attempt], outputs: Mapping[int, str | None]
) -> list[dict[str, Any]]:
    return [
        {
            "number": attempt.number,
            "agent": attempt.agent or None,
            "cause": attempt.cause,
            "words": describe_attempt(attempt.cause, attempt.exit_code) if attempt.cause else "",
            "exit_code": attempt.exit_code,
            "output": outputs.get(attempt.number),
            "began_at": attempt.assigned_at,
            "ended_at": attempt.ended_at,
        }
        for attempt in attempts
    ]


def _describe_environment(environment: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: environment[name] for name in ENVIRONMENT if environment.get(name)}
    return flatten_configuration(shown, tuple(shown))


def _lay_side_by_side(columns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for column in columns for name in column)
    laid = [{"name": name, "values": [column.get(name) for column in columns]} for name in names]
    return [{**row, "same": _all_equal(row["values"])} for row in laid]


def _all_equal(values: Sequence[Any]) -> bool:
    return len({json.dumps(value, sort_keys=True, default=str) for value in values}) == 1


def _system_numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name.removeprefix("system."): value
        for name, value in row.items()
        if name.startswith("system.")
    }


def _system_place(name: str) -> int:
    first = re.split(r"[._]", name, maxsplit=1)[0]
    return SYSTEM_ORDER.index(first) if first in SYSTEM_ORDER else len(SYSTEM_ORDER)
