"""`deployer results`: ranking, coverage and failures of a sweep, at any time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from deployer.cli.live_view import check_ranked, show_outcome
from deployer.cli.output.render import say, show, show_json
from deployer.cli.output.views import coverage_to_plain, show_results
from deployer.cli.shell.command_group import CommandWithOthers, make_app
from deployer.cli.shell.options import (
    OnOption,
    Ranking,
    RankingOption,
    SweepArgument,
    WandbOption,
    pick_sweep,
    read_config,
)
from deployer.config.project import Flags
from deployer.errors import SweepFailed
from deployer.executors.registry import find_target
from deployer.launch.resolution import open_sweep
from deployer.sweeps.recount import verify_sweep
from deployer.sweeps.rerun import get_whole_snapshot
from deployer.sweeps.results import build_results
from deployer.wandb_api.model import Snapshot, SweepPath
from deployer.wandb_api.server import Server

app = make_app()


class ResultsCommand(CommandWithOthers):
    """`results [SWEEP]`, and `results get`."""

    modules: ClassVar[Mapping[str, str]] = {"get": "deployer.cli.results_get"}


@app.command(cls=ResultsCommand)
def results(
    sweep: SweepArgument = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Recount from the raw history instead; exit 3 if a step or a run is missing.",
        ),
    ] = False,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: RankingOption = Ranking.TABLE,
) -> None:
    """Show a sweep's ranking, coverage and failures, its follow-ups counted in.

    Exit code 0 whatever is missing or still going on: watch waits for the end and judges it,
    --verify judges now. 3 where runs have finished and none logged the metric.
    """
    config = read_config(Flags(wandb=wandb, on=on))
    server, path = open_sweep(pick_sweep(sweep, config))
    snapshot = get_whole_snapshot(server, path)
    if not verify:
        target = find_target(config)
        executor = target.open() if target.runs_here else None
        found = build_results(snapshot.sweep, snapshot.runs)
        show_outcome(server, executor, path, found, output)
        check_ranked(found)
        return
    _verify(server, path, snapshot, output)


def _verify(server: Server, path: SweepPath, snapshot: Snapshot, output: str) -> None:
    """Show what the recount found, and what it could not find since it has not finished."""
    found = verify_sweep(server, snapshot)
    results = build_results(snapshot.sweep, snapshot.runs)
    coverage = results.coverage
    if output == "json":
        judged = {"good": found.good, "sentence": found.sentence()}
        show_json({**vars(found), **judged, "coverage": coverage_to_plain(coverage)})
    else:
        if output != "table":
            show_results(results, output)
        for sentence in (coverage.sentence(), found.sentence()):
            (show if output == "table" else say)(sentence)
    if not found.good:
        raise SweepFailed(f"{path}: steps are doubled or missing", f"deployer results {path}")
    if not coverage.complete:
        follow = "heal" if snapshot.sweep.ended else "watch"
        raise SweepFailed(
            f"{path}: not every configuration is finished", f"deployer {follow} {path}"
        )
