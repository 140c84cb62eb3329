"""The documents of a run: summary and media; pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from deployer.model import Attempt, Run, SweepPath
from deployer.page.curves import EPOCH_NAMES, Curve, build_all_curves, describe_curve
from deployer.sweeps.configuration_list import flatten_configuration
from deployer.sweeps.results import ACTIVE_STATES, describe_attempt, describe_ending, run_seconds
from deployer.text import format_count
from deployer.wandb_api.model import parse_json

MOST_ITEMS = 60
KINDS = {
    "image-file": "image",
    "images/separated": "image",
    "table-file": "table",
    "html-file": "html",
    "html": "html",
}
HISTOGRAM = "histogram"
MOST_FRAMES = 60  # for each name, evenly spread over the steps
MOST_FILES = 600  # in these frames
MOST_BINS = 512  # the SDK's maximum
LoggedRows = Sequence[Mapping[str, Any]]
# The order of system metrics.
SYSTEM_ORDER = ("gpu", "cpu", "memory", "proc", "disk", "network")
# The SDK's facts about machine and code, in display order.
ENVIRONMENT = (
    "host", "gpu", "gpu_count", "cpu_count", "memory", "os", "python", "cudaVersion", "program",
    "codePath", "git", "executable", "args", "startedAt", "root",
)  # fmt: skip


def list_media(
    history: Iterable[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return logged media by name and kind, as frames over the steps, histograms last.

    A frame has its step and the existing files with captions; a histogram's frame has the edges of
    its bins and their counts.
    """
    present = {str(file["name"]) for file in files}
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in history:
        for name, value in row.items():
            if isinstance(value, Mapping):
                kind, content = _read(value, present)
                if content:
                    frame = {"step": row.get("_step"), **content}
                    found.setdefault((name, kind), []).append(frame)
    media = [
        {"name": name, "kind": kind, "frames": _spread(frames)}
        for (name, kind), frames in found.items()
    ]
    return sorted(media, key=lambda one: one["kind"] == HISTOGRAM)[:MOST_ITEMS]


def _read(value: Mapping[str, Any], present: Container[str]) -> tuple[str, dict[str, Any]]:
    """Return the kind and content of one value; no content if it cannot be shown."""
    told = str(value.get("_type"))
    if told == HISTOGRAM:
        return HISTOGRAM, _read_bins(value)
    there = [file for file in _files(value) if file["path"] in present] if told in KINDS else []
    return KINDS.get(told, ""), {"files": there} if there else {}


def _files(value: Mapping[str, Any]) -> list[dict[str, str]]:
    many = value.get("captions")
    captions = many if isinstance(many, list) else [value.get("caption")]
    pairs = zip_longest(_paths(value), captions)
    return [
        {"path": path, "caption": caption if isinstance(caption, str) else ""}
        for path, caption in pairs
        if path is not None
    ]


def _paths(value: Mapping[str, Any]) -> list[str]:
    many, pages = value.get("filenames"), value.get("html")
    if isinstance(pages, list):
        return [
            path for page in pages[:MOST_ITEMS] if isinstance(page, dict) for path in _paths(page)
        ]
    if isinstance(many, list):
        return [str(path) for path in many[:MOST_ITEMS]]
    return [str(value["path"])] if value.get("path") else []


def _read_bins(value: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return edges and counts, if valid; the SDK packs evenly spaced edges."""
    counts, edges = _numbers(value.get("values")), _numbers(value.get("bins"))
    packed = value.get("packedBins")
    if isinstance(packed, Mapping) and (found := _numbers([packed.get("min"), packed.get("size")])):
        edges = [found[0] + at * found[1] for at in range(len(counts) + 1)]
    if not counts or len(counts) > MOST_BINS or len(edges) != len(counts) + 1:
        return {}
    return {"edges": edges, "counts": counts}


def _numbers(values: Any) -> list[float]:
    """Return a list of finite numbers; an empty list for anything else."""
    usable = isinstance(values, list) and all(
        type(one) in (int, float) and math.isfinite(one) for one in values
    )
    return values if usable else []


def _spread(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    largest = max(len(frame.get("files", ())) for frame in frames)
    most = min(MOST_FRAMES, max(2, MOST_FILES // max(1, largest)))
    if len(frames) <= most:
        return frames
    stride = (len(frames) - 1) / (most - 1)
    return [frames[round(index * stride)] for index in range(most)]


def flatten_summary(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the last values that a run logged, by dotted names.

    Leaves out the SDK's own values, and placeholders of images, tables and histograms.
    """
    logged = {
        name: value
        for name, value in summary.items()
        if not (isinstance(value, Mapping) and "_type" in value)
    }
    flat = flatten_configuration(logged, tuple(logged))
    return {name: value for name, value in flat.items() if name[:1] != "_" and "._" not in name}


@dataclass(frozen=True)
class RunSource:
    """The input of a run's document.

    `history` and `events` are rows as logged, `console` its last lines, `environment` the SDK's
    facts about machine and code. `outputs` maps an attempt's number to its last output.
    """

    path: SweepPath | None
    entity: str
    project: str
    run: Run
    sweep_title: str = ""
    metric: str | None = None
    sweep_ended: bool = False
    history: LoggedRows = ()
    events: LoggedRows = ()
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
    """Return a run's page: its course and end, its curves, configuration, console and files."""
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

    `missing` are requested ids that match no run.
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
    return flatten_configuration(config, tuple(config))


def describe_system(events: LoggedRows) -> list[dict[str, Any]]:
    """Return a curve of each system metric, GPUs first; x is seconds since the start."""
    rows = [
        {"_step": row.get("_runtime", number), **_system_numbers(row)}
        for number, row in enumerate(events)
    ]
    curves = _describe_curves(build_all_curves(rows))
    return sorted(curves, key=lambda curve: (_system_place(curve["metric"]), curve["metric"]))


def console_text(lines: Sequence[str]) -> list[str]:
    """Return console lines as text; the SDK sends each as JSON, old versions send plain text."""
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
    """Return the sweep's own metric first, and epoch counters last."""

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
