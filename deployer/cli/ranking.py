"""The table of results, and the sentences below it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.analysis.repeats import RepeatGroup, group_repeats, note_curves
from deployer.cli.output.render import Styled, Table, emit, is_too_wide, say
from deployer.config.redaction import redact
from deployer.errors import SweepFailed
from deployer.executors.base import Executor
from deployer.model import SweepPath
from deployer.sweeps.doubts import find_near, list_doubts, list_metric_doubts, list_wrong
from deployer.sweeps.recount import read_tied_curves
from deployer.sweeps.results import (
    EARLIER,
    FIXES,
    REMEDIES,
    WORDS,
    Coverage,
    Results,
    Row,
    find_last_words,
    list_logged,
    name_signal,
)
from deployer.sweeps.run_rows import (
    MOST_PARAMETERS,
    build_run_command,
    describe_configuration,
    flatten_rows,
    list_names,
    list_varying,
    row_to_plain,
)
from deployer.text import format_count, format_parameter, format_runtime, format_value, name_columns
from deployer.wandb_api.server import Server
from deployer.watch.run_logs import get_run_tail

MOST_ROWS = 100  # rows of a ranking on the screen
STATES = {
    "finished": "green",
    "running": "cyan",
    "failed": "red",
    "crashed": "red",
    "killed": "yellow",
}
SHOWN_FAILURES = 5
EXPLAINED_FAILURES = 100  # in JSON; one request each
FAILURE_LINES = 3
BREAKER_LINES = 10


@dataclass(frozen=True)
class RankingView:
    """How to show results: `by` selects a value of each history, else the summary's counts.

    `grouped` shows configurations instead of runs.
    """

    by: str = ""
    grouped: bool = False

    def name_metric(self, results: Results) -> str:
        name = results.metric or "value"
        return f"{name} ({self.by})" if self.by else name


def show_results(results: Results, output: str, view: RankingView = RankingView()) -> None:
    """Print the ranking on stdout as a table, JSON or CSV."""
    if output == "json":
        emit(results_to_plain(results, view), output)
    else:
        emit(None, output, build_ranking(results, output, view))


def build_ranking(results: Results, output: str, view: RankingView) -> Table:
    """Return runs or configurations: complete for CSV, else as much as fits the terminal."""
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
    names = varying[:MOST_PARAMETERS]
    table = build(rows[:MOST_ROWS], metric, names)
    while names and is_too_wide(table):
        names.pop()
        table = build(rows[:MOST_ROWS], metric, names)
    if len(names) < len(varying):
        say(f"{len(names)} of {len(varying)} parameters have a column; -o csv gives all")
    return table


def build_runs(rows: Sequence[Row], metric: str, names: Sequence[str]) -> Table:
    """Return a row for each run, with a column for each of the parameters `names`.

    If the sweep has no metric, it shows the last logged values.
    """
    noted, ranked = any(row.note for row in rows), bool(metric)
    every = (name for row in rows for name in list_logged(row.summary))
    logged = [] if ranked else [*dict.fromkeys(every)][:MOST_PARAMETERS]
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


def build_groups(groups: Sequence[RepeatGroup], metric: str, names: Sequence[str]) -> Table:
    """Return a row for each configuration: rank, runs, mean and spread, parameters."""
    rows = []
    for one in groups:
        counted = str(one.count) if one.count == one.runs else f"{one.count} of {one.runs}"
        cells = _list_cells(one.parameters, names)
        rows.append([one.rank, counted, one.mean, one.deviation, *cells])
    own = ["RANK", "RUNS", metric, "±"]
    return Table([*own, *name_columns(names, own)], rows)


def build_runs_csv(rows: Sequence[Row], metric: str) -> Table:
    """Return all data of each run; a parameter with another column's name is `config.NAME`."""
    keys = ("rank", "run_id", "title", "state", "duration_seconds", "exit_code")
    return Table(*flatten_rows(rows, keys, metric))


def build_groups_csv(groups: Sequence[RepeatGroup]) -> Table:
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
    """Return a table's cells: numbers stay numbers, to be right-aligned."""
    shown = redact({name: parameters[name] for name in names if name in parameters})
    words = {k: format_parameter(v) for k, v in shown.items() if v is None or isinstance(v, str)}
    return [words.get(name, shown.get(name)) for name in names]


def results_to_plain(results: Results, view: RankingView = RankingView()) -> dict[str, Any]:
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
    found = group_repeats(results.rows, results.goal)
    return {"groups": [group_to_plain(group) for group in found.groups], "seeds": found.seeds}


def group_to_plain(group: RepeatGroup) -> dict[str, Any]:
    """Return a configuration with stable keys, without secret values."""
    return {**vars(group), "parameters": redact(group.parameters), "count": group.count}


def coverage_to_plain(coverage: Coverage) -> dict[str, Any]:
    """Return a coverage with stable keys, including derived values."""
    judged = {"complete": coverage.complete, "sentence": coverage.sentence()}
    return {**vars(coverage), **judged}


def show_outcome(
    server: Server,
    executor: Executor | None,
    path: SweepPath,
    results: Results,
    output: str,
    view: RankingView = RankingView(),
) -> None:
    """Show ranking, failures, coverage, best configuration and the page's address."""
    results = note_curves(results, read_tied_curves(server, path, results))
    page = server.sweep_url(path)
    if output == "json":
        failures = [
            {
                **row_to_plain(row),
                "last_lines": get_run_tail(server, executor, path, row, FAILURE_LINES)
                if number < EXPLAINED_FAILURES
                else None,
            }
            for number, row in enumerate(results.failures)
        ]
        emit({**results_to_plain(results, view), "failures": failures, "page": page}, output)
        return
    show_results(results, output, view)  # before the slower requests for failed runs' output
    for line in _failure_lines(server, executor, path, results):
        emit(None, output, line)
    emit(None, output, *build_summary_lines(results, f"{page}{server.page_hint}", view))


def _failure_lines(
    server: Server, executor: Executor | None, path: SweepPath, results: Results
) -> Iterator[str]:
    """Yield why the sweep was stopped, with the first failure's output; then other failures."""
    failures = results.failures
    if results.stop_reason and failures:
        first = min(failures, key=lambda row: row.started_at or 0.0)
        tail = get_run_tail(server, executor, path, first, BREAKER_LINES)
        yield from build_breaker_lines(results.stop_reason, first, tail)
        failures = tuple(row for row in failures if row != first)
    for row in failures[:SHOWN_FAILURES]:
        tail = get_run_tail(server, executor, path, row, FAILURE_LINES)
        yield build_failure_line(row, tail)
    if (hidden := len(failures) - SHOWN_FAILURES) > 0:
        yield f"and {hidden} more failures: deployer results {path} -o json"
    yield from build_fix_lines(results.failures)


def build_summary_lines(
    results: Results, page: str, view: RankingView = RankingView()
) -> list[str]:
    """Return the lines below the ranking: coverage, the best configuration, the page."""
    lines = [results.coverage.sentence()]
    copies = sum(bool(row.copy_of) for row in results.rows)
    left = {"stopped early": results.coverage.stopped_early, "with the curve of a repeat": copies}
    said = [f"{format_count(count, 'run')} {which}" for which, count in left.items() if count]
    if view.grouped and said:
        lines.append(f"left out of the means: {', '.join(said)}")
    if results.best is not None:
        value = f"{results.metric}={format_value(results.best.value)}"
        configuration = describe_configuration(results.best, results.rows)
        lines.append(f"best: {results.best.run_id} {value} with {configuration}")
        lines.append(f"run it again: {build_run_command(results)}")
    lines += [f"warning: {doubt}" for doubt in list_doubts(results)]
    return [*lines, f"results page: {page}"]


def build_failure_line(row: Row, tail: tuple[str, ...]) -> str:
    """Return one line about a failed run: its exit code and its last line of output."""
    last = find_last_words(tail)
    words = f": {last}" if last else ""
    return f"{row.state}: {row.run_id}{_ending(row)} ({describe_configuration(row)}){words}"


def _ending(row: Row) -> str:
    """Return how a run failed: its exit code and how early, unless each attempt was killed."""
    causes = [attempt.cause for attempt in row.attempts]
    last = causes[-1] if causes else None
    if last == "OOM":
        return f", {format_count(causes.count(last), 'time')} out of memory"
    if last == "signal":
        return f", killed {format_count(causes.count(last), 'time')}, finally without a new step"
    early = " before wandb.init" if last in ("never started", "no server") else ""
    if last == "own failure" and row.exit_code == 0:
        early = " during its run"
    said = f": {WORDS[last]}" if last in FIXES else early
    if row.exit_code is None:
        return said
    name = name_signal(row.exit_code)
    return f" with exit code {row.exit_code}{f' ({name})' if name else ''}{said}"


def build_fix_lines(failures: Sequence[Row]) -> list[str]:
    causes = {row.attempts[-1].cause: None for row in failures if row.attempts}
    return [f"hint: {REMEDIES[cause]}" for cause in causes if cause in REMEDIES]


def build_breaker_lines(reason: str, first: Row, tail: tuple[str, ...]) -> list[str]:
    """Return why the server stopped the sweep, and the last output of its first failing run."""
    lines = [f"stopped: {reason}", build_failure_line(first, ())]
    return lines + [f"  | {line}" for line in tail if line.strip()]


def check_ranked(results: Results) -> None:
    """Raise SweepFailed if runs have finished and none can be ranked."""
    if results.metric_missing:
        look = f"see what diverges: deployer agents logs {results.sweep_path}"
        raise SweepFailed(
            f"{results.sweep_path}: {list_metric_doubts(results)[0]}",
            name_other_metric(results) if results.unlogged else look,
        )


def name_other_metric(results: Results) -> str:
    """Return the command that ranks by a logged name, or a hint what to log."""
    if list_wrong(results):
        return f"log it as a number: run.log({{{json.dumps(results.metric)}: float(value)}})"
    if results.dropped.startswith(EARLIER):
        return 'to continue the run, call wandb.init(resume="allow") each time'
    if results.dropped:
        own = f'or give it its own axis: run.define_metric("{results.metric}", step_metric="epoch")'
        return f"log it without step=, or with a step that does not go back; {own}"
    if not results.logged:
        return (
            "log it with run.log, name what the script logs (metric: name: in the sweep's file), "
            "or let metrics: in deployer.yaml read it"
        )
    if near := find_near(results):
        named = f"--metric {shlex.quote(near)} --goal {results.goal}"
        return f"deployer results {results.sweep_path} {named}"
    return "log it with run.log, or name another metric: --metric NAME"
