"""`deployer results`, `importance` and `report`: the findings of a sweep."""

from __future__ import annotations

import difflib
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from deployer.analysis.importance import Importance, build_importance
from deployer.analysis.ranking import Reduction, parse_reduction, rank_by, rank_by_history
from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import Aside, Table, emit, say
from deployer.cli.ranking import (
    RankingView,
    check_ranked,
    coverage_to_plain,
    show_outcome,
    show_results,
)
from deployer.cli.shell.call import FORMAT, App, Call, CommandWithCsv, CommandWithOthers
from deployer.cli.shell.options import BadValue, SweepArgument
from deployer.config.document import write_user_text
from deployer.config.project import LOCAL
from deployer.errors import ConfigError, SweepFailed
from deployer.executors.registry import find_executor
from deployer.model import SweepPath
from deployer.sweeps.recount import get_metric_histories, read_dropped, verify_sweep
from deployer.sweeps.rerun import get_full_snapshot
from deployer.sweeps.results import Results, build_results, list_logged, metric_value
from deployer.text import format_count
from deployer.wandb_api.model import Snapshot
from deployer.wandb_api.server import Server

MetricOption = Annotated[
    str | None,
    typer.Option(
        "--metric", metavar="NAME", help="Rank by this metric instead of the sweep's own."
    ),
]
app = App()


class Goal(StrEnum):
    """The direction in which a metric improves."""

    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


def read_reduction(text: str) -> Reduction:
    """Parse the value of `--by`; raises BadValue."""
    try:
        return parse_reduction(text)
    except ValueError as error:
        raise BadValue(str(error), "write last, best, or mean:5 for the mean of 5") from error


GoalOption = Annotated[
    Goal | None,
    typer.Option("--goal", help="minimize or maximize; required with another metric."),
]
ByOption = Annotated[
    Reduction | None,
    typer.Option(
        "--by",
        metavar="last|best|mean:K",
        parser=read_reduction,
        help="Rank by each run's last value, best value, or mean of the last K values in its "
        "history; default: by the value in its summary.",
    ),
]


def choose_metric(
    snapshot: Snapshot, metric: str | None, goal: Goal | None, *, needs_goal: bool = True
) -> Results:
    """Return the results by the sweep's own metric, or by another; raises ConfigError."""
    sweep = snapshot.sweep
    if metric in (None, sweep.metric_name) and goal is None:
        return build_results(sweep, snapshot.runs)
    name = metric or sweep.metric_name
    if name is None:
        raise ConfigError("--goal", "the sweep has no metric", "name one: --metric NAME")
    if goal is None and name != sweep.metric_name and needs_goal:
        logged = sorted({key for run in snapshot.runs for key in list_logged(run.summary)})
        if logged and all(metric_value(run.summary, name) is None for run in snapshot.runs):
            near = difflib.get_close_matches(name, logged, n=1)
            hint = f"did you mean {near[0]}?" if near else f"runs logged {', '.join(logged[:10])}"
            raise ConfigError("--metric", f"no run logged {name}", hint)
        said = f"{name} is not the sweep's metric, so it needs a goal"
        raise ConfigError("--metric", said, "add --goal minimize or --goal maximize")
    return rank_by(sweep, snapshot.runs, name, goal or sweep.metric_goal)


def take_values(server: Server, snapshot: Snapshot, results: Results, by: Reduction) -> Results:
    """Return results ranked by a value of each run's history; raises ConfigError, WandbError."""
    if results.metric is None:
        raise ConfigError("--by", "the sweep has no metric", "name one: --metric NAME")
    with showing_busy():
        histories = get_metric_histories(server, snapshot, results.metric)
    return rank_by_history(snapshot.sweep, results, histories, by)


class ResultsCommand(CommandWithOthers, CommandWithCsv):
    """`results [SWEEP]`, and `results get`."""

    modules: ClassVar[Mapping[str, str]] = {"get": "deployer.cli.results_get"}


@app.command(cls=ResultsCommand)
def results(
    call: Call,
    sweep: SweepArgument = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Recount from the raw history instead; exit code 3 if a step, a run or the metric "
            "is missing.",
        ),
    ] = False,
    metric: MetricOption = None,
    goal: GoalOption = None,
    by: ByOption = None,
    group: Annotated[
        bool,
        typer.Option(
            "--group",
            help="Rank configurations instead of runs: runs that differ only in a seed are repeats "
            "and get a mean and a standard deviation.",
        ),
    ] = False,
) -> None:
    """Show a sweep's ranking, coverage and failures, with its follow-up sweeps.

    Exits with 0 even if runs are missing or still running: `watch` waits for the end, and --verify
    exits with 3. Exits with 3 if runs have finished but none logged the metric.
    """
    if verify and (metric or goal or by or group):
        raise ConfigError("--verify", "recounts steps; it does not rank runs", "remove the others")
    project, server, path = call.connect(sweep, reading=True)
    snapshot = get_full_snapshot(server, path)
    if verify:
        _verify(server, path, snapshot, call.output)
        return
    found = choose_metric(snapshot, metric, goal)
    if by is not None:
        found = take_values(server, snapshot, found, by)
    found = read_dropped(server, found)
    executor = find_executor(project) if project.on == LOCAL else None
    view = RankingView(by=str(by or ""), grouped=group)
    show_outcome(server, executor, path, found, call.output, view)
    check_ranked(found)


def _verify(server: Server, path: SweepPath, snapshot: Snapshot, output: str) -> None:
    """Show the recount, and which runs it could not check because they have not finished."""
    found = verify_sweep(server, snapshot)
    results = build_results(snapshot.sweep, snapshot.runs)
    coverage = results.coverage
    if output == "csv":
        show_results(results, output)
    judged = {"good": found.good, "sentence": found.sentence()}
    plain = {**vars(found), **judged, "coverage": coverage_to_plain(coverage)}
    emit(plain, output, coverage.sentence(), found.sentence())
    if not found.good:
        raise SweepFailed(f"{path}: steps are doubled or missing", f"deployer results {path}")
    if not coverage.complete:
        follow = "heal" if snapshot.sweep.ended else "watch"
        raise SweepFailed(
            f"{path}: not every configuration is finished", f"deployer {follow} {path}"
        )
    check_ranked(read_dropped(server, results))


importance_app = App()


@importance_app.command()
def importance(
    call: Call,
    sweep: SweepArgument = None,
    metric: MetricOption = None,
) -> None:
    """Show how important each parameter is for the metric, as W&B's own panel does.

    The importance is that of a random forest, as a part of 1; the correlation is linear. Exits with
    3 if runs have finished but none logged the metric.
    """
    _, server, path = call.connect(sweep, reading=True)
    snapshot = get_full_snapshot(server, path)
    found = choose_metric(snapshot, metric, None, needs_goal=False)
    if found.metric is None:
        raise ConfigError("--metric", "the sweep has no metric", "name one: --metric NAME")
    check_ranked(found)
    show_importance(build_importance(found.rows, found.metric), str(path), call.output)


def show_importance(found: Importance, sweep: str, output: str) -> None:
    """Print importance on stdout, the sentence last; omitted parameters on stderr."""
    rows = [
        [one.name, round(one.importance, 2), _round(one.correlation), one.runs]
        for one in found.parameters
    ]
    table = Table(("PARAMETER", "IMPORTANCE", "CORRELATION", "RUNS"), rows)
    sentence = found.sentence()
    plain = {"sweep": sweep, **vars(found), "sentence": sentence}
    emit(plain, output, table, *map(Aside, _list_notes(found)), sentence)


def _round(correlation: float | None) -> float | None:
    return None if correlation is None else round(correlation, 2) + 0.0  # avoid -0


def _list_notes(found: Importance) -> list[str]:
    notes = []
    if found.stopped_early:
        notes.append(f"left out: {format_count(found.stopped_early, 'run')} stopped early")
    if found.left_out:
        runs = format_count(found.left_out, "run")
        notes.append(f"left out: {runs} not finished, or without a finite {found.metric}")
    if found.names:
        notes.append(f"left out: {', '.join(found.names)}, whose text differs in every run")
    return notes


report_app = App()


@report_app.command(without=FORMAT)
def report(
    call: Call,
    sweep: SweepArgument = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE.html",
            help="Where to write the page, which needs no server or network (ranking, curves, "
            "importance, failures, coverage, agents, files); default: report-SWEEP.html.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a file that is not a report.")
    ] = False,
) -> None:
    """Write a report of a sweep, at any time, from any W&B server.

    Redacts values of parameters with names like api_key or password.
    """
    from deployer.report.collection import collect
    from deployer.report.content import build_html, check_place

    if to is not None:
        check_place(to, force=force)
    _, server, path = call.connect(sweep, reading=True)
    if to is None:
        to = Path(f"report-{path.sweep_id}.html")
        check_place(to, force=force)
    material = collect(server, path, time.time())
    write_user_text(to, build_html(material))
    say(f"curves of {len(material.curves)} of {len(material.results.rows)} runs")
    say(f"report: {to}")
