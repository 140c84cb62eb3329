"""The ranking of runs, and of configurations with their repeats, in every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.analysis.repeats import Group, group_repeats
from deployer.cli.output.render import emit, is_too_wide, say
from deployer.cli.output.table import Styled, Table
from deployer.config.redaction import redact
from deployer.sweeps.doubts import list_doubts
from deployer.sweeps.metrics import list_logged
from deployer.sweeps.results import Coverage, Results, Row
from deployer.sweeps.run_rows import build_run_command, flatten_rows, list_names, row_to_plain
from deployer.sweeps.wording import MOST_NAMED, list_varying
from deployer.text import format_parameter, format_runtime, name_columns

MOST_ROWS = 100  # of a ranking on the screen
STATES = {
    "finished": "green",
    "running": "cyan",
    "failed": "red",
    "crashed": "red",
    "killed": "yellow",
}


@dataclass(frozen=True)
class View:
    """How results are shown: `by` says which value of a history counts, if not the summary's.

    `grouped` shows configurations in place of runs.
    """

    by: str = ""
    grouped: bool = False

    def name_metric(self, results: Results) -> str:
        """Return the head of the metric's column."""
        name = results.metric or "value"
        return f"{name} ({self.by})" if self.by else name


def show_results(results: Results, output: str, view: View = View()) -> None:
    """Put the ranking on stdout as a table, JSON or CSV."""
    if output == "json":
        emit(results_to_plain(results, view), output)
    else:
        emit(None, output, build_ranking(results, output, view))


def build_ranking(results: Results, output: str, view: View) -> Table:
    """Return runs, or configurations: all of each for CSV, else what the terminal has room for."""
    metric = view.name_metric(results)
    rows: Sequence[Any] = results.rows
    if view.grouped:
        rows = group_repeats(results.rows, results.goal).groups
    if output == "csv":
        return build_groups_csv(rows) if view.grouped else build_runs_csv(rows, metric)
    what, build = ("configurations", build_groups) if view.grouped else ("runs", build_runs)
    metric = metric if results.metric or view.grouped else ""
    if len(rows) > MOST_ROWS:
        say(f"the first {MOST_ROWS} of {len(rows)} {what}; -o csv gives all")
    varying = list_varying([row.parameters for row in rows])
    names = varying[:MOST_NAMED]
    table = build(rows[:MOST_ROWS], metric, names)
    while names and is_too_wide(table):
        names.pop()
        table = build(rows[:MOST_ROWS], metric, names)
    if len(names) < len(varying):
        say(f"{len(names)} of {len(varying)} parameters have a column; -o csv gives all")
    return table


def build_runs(rows: Sequence[Row], metric: str, names: Sequence[str]) -> Table:
    """Return a row for each run, with a column for each of the parameters `names`.

    A sweep without a metric shows what its runs logged last.
    """
    noted, ranked = any(row.note for row in rows), bool(metric)
    every = (name for row in rows for name in list_logged(row.summary))
    logged = [] if ranked else [*dict.fromkeys(every)][:MOST_NAMED]
    own = [*["RANK"] * ranked, "RUN", "STATE", *([metric] if ranked else logged)]
    return Table(
        [*own, *name_columns(names, [*own, "TIME", "NOTE"]), "TIME"] + ["NOTE"] * noted,
        [
            [r.rank] * ranked
            + [r.run_id, Styled(r.word or r.state, STATES.get(r.state, ""))]
            + ([r.value] if ranked else [r.summary.get(name) for name in logged])
            + _list_cells(r.parameters, names)
            + [format_runtime(r.duration_seconds)]
            + [r.note] * noted
            for r in rows
        ],
    )


def build_groups(groups: Sequence[Group], metric: str, names: Sequence[str]) -> Table:
    """Return a row for each configuration: rank, runs, mean and spread, parameters."""
    rows = []
    for one in groups:
        counted = str(one.count) if one.count == one.runs else f"{one.count} of {one.runs}"
        cells = _list_cells(one.parameters, names)
        rows.append([one.rank, counted, one.mean, one.deviation, *cells])
    own = ["RANK", "RUNS", metric, "±"]
    return Table([*own, *name_columns(names, own)], rows)


def build_runs_csv(rows: Sequence[Row], metric: str) -> Table:
    """Return all of each run; where a parameter has another column's name, it is `config.NAME`."""
    keys = ("rank", "run_id", "title", "state", "duration_seconds", "exit_code")
    return Table(*flatten_rows(rows, keys, metric))


def build_groups_csv(groups: Sequence[Group]) -> Table:
    """Return all of each configuration, with the ids of its runs."""
    plain = [group_to_plain(group) for group in groups]
    names = list_names(plain, "parameters")
    own = ["rank", "count", "runs", "mean", "deviation"]
    return Table(
        [*own, "run_ids", *name_columns(names, [*own, "run_ids"])],
        [
            [*(g[name] for name in own), " ".join(g["run_ids"])]
            + [g["parameters"].get(name) for name in names]
            for g in plain
        ],
    )


def _list_cells(parameters: Mapping[str, Any], names: Sequence[str]) -> list[object]:
    """Return cells of a table: numbers stay, so that they are set to the right."""
    shown = redact({name: parameters[name] for name in names if name in parameters})
    words = {k: format_parameter(v) for k, v in shown.items() if v is None or isinstance(v, str)}
    return [words.get(name, shown.get(name)) for name in names]


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
        "command": build_run_command(results),
        "warnings": list_doubts(results),
        "runs": [row_to_plain(row) for row in results.rows],
        "failures": [row_to_plain(row) for row in results.failures],
    }


def groups_to_plain(results: Results) -> dict[str, Any]:
    """Return configurations with stable keys."""
    found = group_repeats(results.rows, results.goal)
    return {"groups": [group_to_plain(group) for group in found.groups], "seeds": found.seeds}


def group_to_plain(group: Group) -> dict[str, Any]:
    """Return a configuration with stable keys, without values of secrets."""
    return {**vars(group), "parameters": redact(group.parameters), "count": group.count}


def coverage_to_plain(coverage: Coverage) -> dict[str, Any]:
    """Return a coverage with stable keys, what follows from it included."""
    judged = {"complete": coverage.complete, "sentence": coverage.sentence()}
    return {**vars(coverage), **judged}
