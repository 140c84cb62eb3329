"""Which metric results are about, and which of its values: the options, and what they ask for."""

from __future__ import annotations

import difflib
from enum import StrEnum
from typing import Annotated

import typer

from deployer.analysis.ranking import rank_by, rank_by_history
from deployer.analysis.reduction import Reduction, parse_reduction
from deployer.cli.output.live import showing_busy
from deployer.cli.shell.options import BadValue
from deployer.errors import ConfigError
from deployer.sweeps.histories import get_metric_histories
from deployer.sweeps.metrics import list_logged, metric_value
from deployer.sweeps.results import Results, build_results
from deployer.wandb_api.model import Snapshot
from deployer.wandb_api.server import Server


class Goal(StrEnum):
    """Which values of a metric are good."""

    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


def read_reduction(text: str) -> Reduction:
    """Return what `--by` says; raises BadValue."""
    try:
        return parse_reduction(text)
    except ValueError as error:
        raise BadValue(str(error), "write last, best, or mean:5 for the mean of 5") from error


MetricOption = Annotated[
    str | None,
    typer.Option(
        "--metric", metavar="NAME", help="Rank by this metric instead of the sweep's own."
    ),
]
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
