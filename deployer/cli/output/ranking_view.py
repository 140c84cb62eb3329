"""The ranking of runs, and of configurations with their repeats, in every format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployer.analysis.repeats import Groups, Verdict, group_repeats, has_repeats
from deployer.cli.output.render import Styled, is_too_wide, say, show_csv, show_table
from deployer.config.redaction import is_secret_name, redact
from deployer.sweeps.results import Results
from deployer.sweeps.wording import MOST_NAMED, list_varying
from deployer.text import format_parameter, format_runtime

MOST_ROWS = 100  # of a ranking on the screen
STATES = {
    "finished": "green",
    "running": "cyan",
    "failed": "red",
    "crashed": "red",
    "killed": "yellow",
}
Table = tuple[list[str], list[list[object]]]  # columns and rows


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


def show_ranking(results: Results, output: str, view: View) -> None:
    """Put the ranking on stdout as a table or CSV."""
    if view.grouped:
        groups = group_repeats(results.rows, results.goal)
        if output == "csv":
            show_csv(*build_groups_csv(groups))
        else:
            _show_groups(groups, view.name_metric(results))
    elif output == "csv":
        show_csv(*build_ranking_csv(results, view))
    else:
        _show_runs(results, view)


def _show_runs(results: Results, view: View) -> None:
    shown = replace(results, rows=_limit(results.rows, "runs"))

    def build(names: Sequence[str]) -> Table:
        return build_ranking(shown, view, names)

    _show_fitting([row.parameters for row in results.rows], build)


def _show_groups(found: Groups, metric: str) -> None:
    shown = replace(found, groups=_limit(found.groups, "configurations"))

    def build(names: Sequence[str]) -> Table:
        return build_groups(shown, metric, names)

    _show_fitting([group.parameters for group in found.groups], build)


def _limit(rows: Sequence[Any], what: str) -> tuple[Any, ...]:
    """Return as many as can be looked at, and say that there are more."""
    if len(rows) > MOST_ROWS:
        say(f"the first {MOST_ROWS} of {len(rows)} {what}; -o csv gives all")
    return tuple(rows[:MOST_ROWS])


def _show_fitting(
    configurations: Sequence[Mapping[str, Any]], build: Callable[[Sequence[str]], Table]
) -> None:
    """Show a table with as many of the parameters that differ as the terminal has room for."""
    varying = list_varying(configurations)
    names = varying[:MOST_NAMED]
    while names and is_too_wide(*build(names)):
        names.pop()
    if len(names) < len(varying):
        say(f"{len(names)} of {len(varying)} parameters have a column; -o csv gives all")
    show_table(*build(names))


def build_ranking(results: Results, view: View, names: Sequence[str]) -> Table:
    """Return the columns and rows of runs, with a column for each of the parameters `names`."""
    columns = ["RANK", "RUN", "STATE", view.name_metric(results), *names, "TIME"]
    noted = any(r.note for r in results.rows)
    return columns + ["NOTE"] * noted, [
        [r.rank, r.run_id, Styled(r.state, STATES.get(r.state, "")), r.value]
        + [_parameter_cell(r.parameters, name) for name in names]
        + [format_runtime(r.duration_seconds)]
        + [r.note] * noted
        for r in results.rows
    ]


def build_ranking_csv(results: Results, view: View) -> Table:
    """Return the same for programs, with seconds, titles, exit codes, attempts and summaries.

    A value of a summary is in the column `summary.NAME`; what is no single value is JSON.
    """
    names = list(dict.fromkeys(name for row in results.rows for name in row.parameters))
    logged = list(dict.fromkeys(name for row in results.rows for name in row.summary))
    columns = ["rank", "run_id", "title", "state", "duration_seconds", "exit_code", "attempts"]
    heads = [*columns, view.name_metric(results), *names, *(f"summary.{name}" for name in logged)]
    return heads, [
        [r.rank, r.run_id, r.title, r.state, r.duration_seconds, r.exit_code]
        + [len(r.attempts) or None, r.value]
        + [_redacted(r.parameters, name) for name in names]
        + [_as_cell(_redacted(r.summary, name)) for name in logged]
        for r in results.rows
    ]


def _as_cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, Mapping | list) else value


def build_groups(found: Groups, metric: str, names: Sequence[str]) -> Table:
    """Return columns and rows of configurations: rank, runs, mean and spread, parameters."""
    return ["RANK", "RUNS", metric, "±", *names], [
        [group.rank, _count(group.count, group.runs), group.mean, group.deviation]
        + [_parameter_cell(group.parameters, name) for name in names]
        for group in found.groups
    ]


def build_groups_csv(found: Groups) -> Table:
    """Return the same for programs, with the ids of the runs."""
    names = list(dict.fromkeys(name for group in found.groups for name in group.parameters))
    return ["rank", "count", "runs", "mean", "deviation", "run_ids", *names], [
        [group.rank, group.count, group.runs, group.mean, group.deviation, " ".join(group.run_ids)]
        + [_redacted(group.parameters, name) for name in names]
        for group in found.groups
    ]


def groups_to_plain(results: Results) -> dict[str, Any]:
    """Return configurations with stable keys, and the lead of the first."""
    found = group_repeats(results.rows, results.goal)
    groups = [
        {**vars(group), "parameters": redact(group.parameters), "count": group.count}
        for group in found.groups
    ]
    return {"groups": groups, "seeds": found.seeds, "lead": vars(found.lead)}


def build_lead_line(results: Results, view: View) -> str:
    """Return what is known of the lead; nothing where no repeats were asked for, or are there."""
    if not view.grouped and not has_repeats(results.rows):
        return ""
    lead = group_repeats(results.rows, results.goal).lead
    return lead.sentence if view.grouped or lead.verdict is not Verdict.UNKNOWN else ""


def _count(count: int, runs: int) -> str:
    return str(count) if count == runs else f"{count} of {runs}"


def _parameter_cell(parameters: Mapping[str, Any], name: str) -> object:
    """Return a cell of a table: numbers stay, so that they are set to the right."""
    value = _redacted(parameters, name)
    told = isinstance(value, str) or (value is None and name in parameters)
    return format_parameter(value) if told else value


def _redacted(parameters: Mapping[str, Any], name: str) -> Any:
    value = parameters.get(name)
    plain = isinstance(value, int | float) and not is_secret_name(name)
    return value if plain else redact({name: value})[name]
