"""The documents of sweeps and their lists: head, table, agents, importance; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deployer.analysis.best_so_far import find_end, list_best_so_far
from deployer.analysis.forecast import forecast_end
from deployer.analysis.importance import Importance, build_importance
from deployer.analysis.parallel import Axis, build_axes
from deployer.errors import DeployerError
from deployer.model import Run, Sweep
from deployer.page.run_document import flatten_summary
from deployer.page.strict_json import Encoded, encode_value
from deployer.sweeps.configuration_list import describe_run
from deployer.sweeps.doubts import list_doubts
from deployer.sweeps.parameters import parse_parameters
from deployer.sweeps.results import ACTIVE_STATES, WRITTEN, Results, Row, is_healed, rank_key

# A run is an array in this order, so that names are not repeated ten thousand times.
RUN_FIELDS = (
    "id", "title", "rank", "state", "note", "value", "seconds", "agent", "exit_code", "attempt",
    "healed", "started_at", "ended_at", "stopped_early", "parameters", "metrics",
)  # fmt: skip
MOST_METRICS = 30
CURVES_SHOWN = 100
ACTIVE_CURVES_SHOWN = 30
Head = dict[str, Any]


# What each run contributes to a sweep's table, cached while the run is unchanged. Of ten thousand
# runs, few have changed since the last document; only those are encoded again.


@dataclass
class _Known:
    info: Run
    numbers: Mapping[str, float]
    columns: tuple[Sequence[str], Sequence[str]] | None = None
    text: bytes = b""


class Cells:
    """The numbers of runs' summaries, and their encoded parameters and metrics, by the run's id."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def numbers(self, run: Run) -> Mapping[str, float]:
        known = self._known.get(run.run_id)
        if known is None or known.info is not run:
            known = self._known[run.run_id] = _Known(run, list_numbers(run.summary))
        return known.numbers

    def encode(
        self,
        head: Sequence[Any],
        parameters: Mapping[str, Any],
        columns: Sequence[str],
        metrics: Sequence[str],
    ) -> bytes:
        """Return a run's array, whose id is first in `head`; call `numbers` first."""
        known = self._known[head[0]]
        if known.columns != (columns, metrics):
            known.columns = (columns, metrics)
            cells = [pick(parameters, columns), pick(known.numbers, metrics)]
            known.text = encode_value(cells)[1:-1]
        return encode_value(head)[:-1] + b"," + known.text + b"]"


def join_rows(rows: Sequence[bytes]) -> Encoded:
    return Encoded(b"[" + b",".join(rows) + b"]")


def pick(values: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    return [values.get(name) for name in names]


def list_numbers(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return a summary's numbers by dotted names; NaN counts, which SDKs send as text."""
    nested = any(isinstance(value, Mapping) for value in summary.values())
    flat = flatten_summary(summary) if nested else summary
    return {
        name: number
        for name, value in flat.items()
        if (number := _number(value)) is not None and name[:1] != "_"
    }


def _number(value: Any) -> float | None:
    kind = type(value)
    if kind is float or kind is int:  # never a bool
        return value  # type: ignore[no-any-return]
    return WRITTEN.get(value) if kind is str else None


class Doing(StrEnum):
    """The current activity of an agent."""

    WORKING = "working"
    WAITING = "waiting"
    SILENT = "silent"
    ENDED = "ended"


@dataclass(frozen=True)
class AgentNow:
    """An agent: machine (a pod's name in a cluster), GPUs as text, run and node if any.

    `finished` counts its finished runs; times are epoch seconds.
    """

    name: str
    host: str
    doing: Doing
    run_id: str | None
    finished: int
    heartbeat_at: float | None
    gpus: str = ""
    node: str = ""


def describe_agents(agents: Sequence[AgentNow]) -> list[dict[str, Any]]:
    order = list(Doing)
    ordered = sorted(agents, key=lambda agent: order.index(agent.doing))
    return [
        {
            "name": agent.name,
            "host": agent.host,
            "doing": agent.doing,
            "run": agent.run_id,
            "finished": agent.finished,
            "heartbeat_at": agent.heartbeat_at,
            "gpus": agent.gpus,
            "node": agent.node,
        }
        for agent in ordered
    ]


@dataclass(frozen=True)
class SweepSource:
    """The input of a sweep's document.

    `stopped_early` are ids of runs that the sweep's own rule ended. `actions` are what its viewer
    may do to it now. `now` is in epoch seconds.
    """

    sweep: Sweep
    runs: Sequence[Run]
    results: Results
    agents: Sequence[AgentNow]
    now: float
    stopped_early: Collection[str] = ()
    actions: Sequence[str] = ()


def sweep_outcome(results: Results) -> str:
    """Return a sweep's state for users: one that ended may have failed, or lack runs."""
    coverage = results.coverage
    if results.state != "FINISHED" or coverage.failed + coverage.lost == 0:
        return results.state.lower()
    return "incomplete" if coverage.finished and not results.stop_reason else "failed"


def describe_head(source: SweepSource) -> dict[str, Any]:
    sweep, results, coverage = source.sweep, source.results, source.results.coverage
    at_work = sum(agent.doing in (Doing.WORKING, Doing.WAITING) for agent in source.agents)
    return {
        "id": sweep.path.sweep_id,
        "title": sweep.title,
        "state": sweep_outcome(results),
        "reason": sweep.stop_reason or None,
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
        "ends_at": forecast_end(results, source.runs, at_work, source.now),
    }


def build_sweep_document(source: SweepSource) -> dict[str, Any]:
    """Return the sweep's page: head, agents, table, axes, best so far."""
    return {**build_sweep_now(source), **build_sweep_table(source)}


def build_sweep_now(source: SweepSource) -> dict[str, Any]:
    """Return the parts that change with time alone: the head with its forecast, the agents."""
    sweep = source.sweep
    return {
        "kind": "sweep",
        "entity": sweep.path.entity,
        "project": sweep.path.project,
        **describe_head(source),
        "agents": describe_agents(source.agents),
        "actions": list(source.actions),
    }


def build_sweep_table(source: SweepSource, cells: Cells | None = None) -> dict[str, Any]:
    """Return the parts that change only with the runs; they are most of the document.

    With `cells`, which callers keep from one document to the next, the runs come encoded.
    """
    sweep, results = source.sweep, source.results
    return {
        "coverage": results.coverage.sentence(),
        "warnings": list_doubts(results),
        "command": describe_command(source),
        **_describe_table(source, cells),
        "axes": _describe_axes(sweep, results),
        "best_so_far": _describe_best_so_far(results),
        "chosen": choose_curves(results) if results.metric else [],
        "active": not sweep.ended or any(run.state in ACTIVE_STATES for run in source.runs),
    }


def _describe_best(best: Row | None) -> dict[str, Any] | None:
    return {"run": best.run_id, "title": best.title, "value": best.value} if best else None


def _describe_table(source: SweepSource, cells: Cells | None) -> dict[str, Any]:
    """Return the runs' table: columns of varied parameters, and the fixed parameters."""
    rows = source.results.rows
    names = {name: None for row in rows for name in row.parameters}
    config = source.sweep.config
    space, _ = parse_parameters(config.get("parameters", {}))
    held = {".".join(form.path) for form in space.parameters if form.grid_size == 1}
    fixed = [name for name in names if _is_fixed(name, held)]
    columns = [name for name in names if name not in fixed]
    first = rows[0].parameters if rows else {}
    numbers = cells.numbers if cells else (lambda run: list_numbers(run.summary))
    summaries = {run.run_id: numbers(run) for run in source.runs}
    metrics = _choose_metrics(summaries.values(), source.results.metric)
    early = set(source.stopped_early)
    return {
        "columns": columns,
        "fixed": {name: first.get(name) for name in fixed},
        "metrics": metrics,
        "fields": RUN_FIELDS,
        "runs": _describe_rows(rows, early, columns, metrics, summaries, cells),
    }


def _describe_rows(
    rows: Sequence[Row],
    early: Collection[str],
    columns: Sequence[str],
    metrics: Sequence[str],
    summaries: Mapping[str, Mapping[str, float]],
    cells: Cells | None,
) -> list[list[Any]] | Encoded:
    heads = [_describe_row(row, row.run_id in early) for row in rows]
    if cells:
        pairs = zip(heads, rows, strict=True)
        return join_rows(
            [cells.encode(head, row.parameters, columns, metrics) for head, row in pairs]
        )
    return [
        [*head, pick(row.parameters, columns), pick(summaries[row.run_id], metrics)]
        for head, row in zip(heads, rows, strict=True)
    ]


def _describe_row(row: Row, early: bool) -> list[Any]:
    last = row.attempts[-1] if row.attempts else None
    return [
        row.run_id,
        row.title,
        row.rank,
        row.state,
        row.note,
        row.value,
        row.duration_seconds,
        last.agent if last else None,
        row.exit_code,
        last.number if last else 1,
        is_healed(row),
        row.started_at,
        find_end(row) if row.state not in ACTIVE_STATES else None,
        early,
    ]


def _choose_metrics(summaries: Iterable[Mapping[str, float]], metric: str | None) -> list[str]:
    counted = Counter(name for summary in summaries for name in summary if name != metric)
    return sorted(name for name, _ in counted.most_common(MOST_METRICS))


def _is_fixed(column: str, fixed: set[str]) -> bool:
    """Return True if a column, or a mapping that contains it, is a fixed parameter."""
    ends = [index for index, letter in enumerate(column) if letter == "."]
    return column in fixed or any(column[:end] in fixed for end in ends)


def _describe_axes(sweep: Sweep, results: Results) -> list[dict[str, Any]]:
    axes, _ = build_axes(results.rows, sweep.config, results.metric)
    return [_describe_axis(axis) for axis in axes]


def _describe_axis(axis: Axis) -> dict[str, Any]:
    described = {"name": axis.name, "scale": axis.scale, "domain": axis.domain}
    return {**described, "categories": axis.categories} if axis.categories else described


def _describe_best_so_far(results: Results) -> dict[str, list[Any]]:
    """Return columns with one entry for each run, ordered by the runs' ends."""
    points = list_best_so_far(results.rows, results.goal)
    return {
        "runs": [point.run_id for point in points],
        "ended_at": [point.ended_at for point in points],
        "best": [point.best for point in points],
    }


def describe_command(source: SweepSource) -> str | None:
    best = source.results.best
    if best is None:
        return None
    run = next(run for run in source.runs if run.run_id == best.run_id)
    return describe_run(source.sweep.config, run.config)


def choose_curves(results: Results) -> list[str]:
    """Return the ids of the runs with visible curves: some active ones and the best."""
    active = [row.run_id for row in results.rows if row.state in ACTIVE_STATES]
    active = active[:ACTIVE_CURVES_SHOWN]
    ranked = sorted(results.rows, key=lambda row: rank_key(row.value, results.goal))
    rest = [row.run_id for row in ranked if row.run_id not in active]
    return rest[: CURVES_SHOWN - len(active)] + active


@dataclass(frozen=True)
class ProjectHead:
    """A project with its newest sweeps, as `describe_head` returns them, and its counts."""

    name: str
    sweep_count: int
    run_count: int
    sweeps: Sequence[Head]


def build_home_document(entity: str, projects: Sequence[ProjectHead]) -> dict[str, Any]:
    """Return the page of all projects, ordered by their newest sweeps."""
    ordered = sorted(projects, key=_newest, reverse=True)
    return {
        "kind": "home",
        "entity": entity,
        "projects": [{**vars(project), "sweeps": list(project.sweeps)} for project in ordered],
        "active": any(_running(project.sweeps) for project in projects),
    }


def build_project_document(
    entity: str,
    project: str,
    sweeps: Sequence[Head],
    runs: Sequence[dict[str, Any]],
    artifacts: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Return the page of a project: its sweeps, newest runs and artifacts."""
    return {
        "kind": "project",
        "entity": entity,
        "project": project,
        "sweeps": list(sweeps),
        "runs": list(runs),
        "artifacts": list(artifacts),
        "active": _running(sweeps),
    }


def _newest(project: ProjectHead) -> float:
    return max((sweep["created_at"] or 0.0 for sweep in project.sweeps), default=0.0)


def _running(sweeps: Sequence[Head]) -> bool:
    return any(sweep["progress"]["running"] for sweep in sweeps)


def build_importance_document(results: Results) -> dict[str, Any]:
    """Return how much each parameter matters; `missing` says why it is unknown."""
    if results.metric is None:
        return {"missing": "the sweep has no metric"}
    try:
        return _describe(build_importance(results.rows, results.metric))
    except DeployerError as error:
        return {"missing": f"{error.message}: {error.hint}"}


def _describe(found: Importance) -> dict[str, Any]:
    return {
        "metric": found.metric,
        "sentence": found.sentence(),
        "runs": found.runs,
        "stopped_early": found.stopped_early,
        "left_out": found.left_out,
        "parameters": [
            {"name": one.name, "importance": one.importance, "correlation": one.correlation}
            for one in found.parameters
        ],
    }
