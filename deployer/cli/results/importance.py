"""`deployer importance`: which parameters explain the metric, and what cannot be told."""

from __future__ import annotations

from deployer.analysis.importance import build_importance, require_importance
from deployer.cli.output.importance_view import show_importance
from deployer.cli.results.metric_choice import MetricOption, check_metric, choose_metric
from deployer.cli.shell.command_group import make_app
from deployer.cli.shell.options import (
    Output,
    OutputOption,
    SweepArgument,
    WandbOption,
    pick_sweep,
    read_config,
)
from deployer.config.project import Flags
from deployer.errors import ConfigError
from deployer.launch.resolution import open_sweep
from deployer.sweeps.rerun import get_whole_snapshot

app = make_app()


@app.command()
def importance(
    sweep: SweepArgument = None,
    metric: MetricOption = None,
    wandb: WandbOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show how much of the metric each parameter explains, and what cannot be told from noise.

    Needs the extra `analysis`, which is scikit-learn. The share is that of the metric's variance
    which a parameter explains by itself in runs that the model has not seen; correlation is
    Spearman's. Exit code 3 where runs have finished and none logged the metric.
    """
    require_importance()
    choice = pick_sweep(sweep, read_config(Flags(wandb=wandb)))
    server, path = open_sweep(choice, reading=True)
    snapshot = get_whole_snapshot(server, path)
    found = choose_metric(snapshot, metric, None, needs_goal=False)
    if found.metric is None:
        raise ConfigError("--metric", "the sweep has no metric", "name one: --metric NAME")
    check_metric(found, chosen=metric is not None)
    show_importance(build_importance(found.rows, found.metric), str(path), output)
