"""`deployer results`: ranking, coverage and failures of a sweep, at any time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from deployer.cli.output.render import emit
from deployer.cli.results.metric_choice import (
    ByOption,
    GoalOption,
    MetricOption,
    choose_metric,
    take_values,
)
from deployer.cli.results.outcome import check_ranked, show_outcome
from deployer.cli.results.ranking import View, coverage_to_plain, show_results
from deployer.cli.shell.call import App, Call, CommandWithCsv, CommandWithOthers
from deployer.cli.shell.options import SweepArgument
from deployer.config.project import LOCAL
from deployer.errors import ConfigError, SweepFailed
from deployer.executors.registry import find_executor
from deployer.model import SweepPath
from deployer.sweeps.histories import read_dropped
from deployer.sweeps.recount import verify_sweep
from deployer.sweeps.rerun import get_whole_snapshot
from deployer.sweeps.results import build_results
from deployer.wandb_api.model import Snapshot
from deployer.wandb_api.server import Server

app = App()


class ResultsCommand(CommandWithOthers, CommandWithCsv):
    """`results [SWEEP]`, and `results get`."""

    modules: ClassVar[Mapping[str, str]] = {"get": "deployer.cli.results.get"}


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
        raise ConfigError("--verify", "recounts steps and ranks nothing", "remove the others")
    project, server, path = call.connect(sweep, reading=True)
    snapshot = get_whole_snapshot(server, path)
    if verify:
        _verify(server, path, snapshot, call.output)
        return
    found = choose_metric(snapshot, metric, goal)
    if by is not None:
        found = take_values(server, snapshot, found, by)
    found = read_dropped(server, found)
    executor = find_executor(project) if project.on == LOCAL else None
    view = View(by=str(by or ""), grouped=group)
    show_outcome(server, executor, path, found, call.output, view)
    check_ranked(found)


def _verify(server: Server, path: SweepPath, snapshot: Snapshot, output: str) -> None:
    """Show what the recount found, and what it could not find since it has not finished."""
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
