"""What came of a sweep, on the terminal: its ranking, its failures and what they printed last."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from deployer.analysis.repeats import note_curves
from deployer.cli.output.render import emit
from deployer.cli.results.ranking import View, results_to_plain, show_results
from deployer.errors import SweepFailed
from deployer.executors.base import Executor
from deployer.model import SweepPath
from deployer.sweeps.doubts import find_near, list_doubts, list_metric_doubts, list_wrong
from deployer.sweeps.endings import FIXES, REMEDIES, WORDS, find_last_words, name_signal
from deployer.sweeps.equal_curves import read_tied_curves
from deployer.sweeps.results import EARLIER, Results, Row
from deployer.sweeps.run_rows import build_run_command, row_to_plain
from deployer.sweeps.wording import describe_configuration
from deployer.text import format_count, format_value
from deployer.wandb_api.server import Server
from deployer.watch.run_logs import get_run_tail

SHOWN_FAILURES = 5
EXPLAINED_FAILURES = 100  # in JSON; a request each
FAILURE_LINES = 3
BREAKER_LINES = 10


def show_outcome(
    server: Server,
    executor: Executor | None,
    path: SweepPath,
    results: Results,
    output: str,
    view: View = View(),
) -> None:
    """Show ranking, failures, coverage, best configuration and the page's address."""
    results = note_curves(results, read_tied_curves(server, path, results))
    page = server.sweep_url(path)
    if output == "json":
        failures = _failures_with_lines(server, executor, path, results)
        emit({**results_to_plain(results, view), "failures": failures, "page": page}, output)
        return
    show_results(results, output, view)  # before servers are asked what failed runs printed
    for line in _failure_lines(server, executor, path, results):
        emit(None, output, line)
    emit(None, output, *build_summary_lines(results, f"{page}{server.page_hint}", view))


def _failures_with_lines(
    server: Server, executor: Executor | None, path: SweepPath, results: Results
) -> list[dict[str, Any]]:
    """Return the failures with what each printed last; None beyond the first few."""
    return [
        {
            **row_to_plain(row),
            "last_lines": get_run_tail(server, executor, path, row, FAILURE_LINES)
            if number < EXPLAINED_FAILURES
            else None,
        }
        for number, row in enumerate(results.failures)
    ]


def _failure_lines(
    server: Server, executor: Executor | None, path: SweepPath, results: Results
) -> Iterator[str]:
    """Yield why the sweep was stopped, with what the first failing run printed; then the others."""
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


def build_summary_lines(results: Results, page: str, view: View = View()) -> list[str]:
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
        early = " during its run"
    said = f": {WORDS[last]}" if last in FIXES else early
    if row.exit_code is None:
        return said
    name = name_signal(row.exit_code)
    return f" with exit code {row.exit_code}{f' ({name})' if name else ''}{said}"


def build_fix_lines(failures: Sequence[Row]) -> list[str]:
    """Return one hint for each kind of failure that has a remedy."""
    causes = {row.attempts[-1].cause: None for row in failures if row.attempts}
    return [f"hint: {REMEDIES[cause]}" for cause in causes if cause in REMEDIES]


def build_breaker_lines(reason: str, first: Row, tail: tuple[str, ...]) -> list[str]:
    """Return why the server stopped the sweep, and what its first failing run printed last."""
    lines = [f"stopped: {reason}", build_failure_line(first, ())]
    return lines + [f"  | {line}" for line in tail if line.strip()]


def check_ranked(results: Results) -> None:
    """Raise SweepFailed where runs have finished and none can be called the best."""
    if results.metric_missing:
        look = f"see what diverges: deployer agents logs {results.sweep_path}"
        raise SweepFailed(
            f"{results.sweep_path}: {list_metric_doubts(results)[0]}",
            name_other_metric(results) if results.unlogged else look,
        )


def name_other_metric(results: Results) -> str:
    """Return the command that ranks by what was logged; what to log, if nothing was."""
    if list_wrong(results):
        return f"log it as a number: run.log({{{json.dumps(results.metric)}: float(value)}})"
    if results.dropped.startswith(EARLIER):
        return 'wandb.init(resume="allow"), where it is called again, continues the run'
    if results.dropped:
        own = f'an axis of its own: run.define_metric("{results.metric}", step_metric="epoch")'
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
