"""`deployer reproduce`: run one configuration again as its lock file has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from deployer.cli.output.live import showing_busy
from deployer.cli.running.live_view import follow
from deployer.cli.shell.call import App, Call
from deployer.cli.shell.options import PlainOption, ReplicasOption
from deployer.errors import SweepFailed
from deployer.launch import pipeline
from deployer.launch.lock.reproduction import (
    Again,
    judge_again,
    list_logged_again,
    prepare_again,
)
from deployer.launch.provision import closing
from deployer.launch.remains import describe_file, telling_remains
from deployer.sweeps.repeats import Judgement
from deployer.text import format_value
from deployer.wandb_api.operations import get_snapshot

app = App()


@app.command()
def reproduce(
    call: Call,
    run: Annotated[str, typer.Argument(metavar="best|RUN", help="The best run, or one by its id.")],
    sweep: Annotated[
        str | None,
        typer.Argument(
            metavar="SWEEP|LOCK",
            help="A sweep of yours, or a lock file; left out: the newest made from this folder.",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            metavar="X",
            min=0.0,
            help="How far the metric of one repeat may lie from the run's; "
            "left out: as far as three repeats differ.",
        ),
    ] = None,
    plain: PlainOption = False,
    replicas: ReplicasOption = None,
) -> None:
    """Run a configuration again with the code, image and data of its lock file.

    It says whether the metric lies within the tolerance; exit code 3 if not. What has no metric,
    such as a command of `deployer run`, only has to finish. Data that has changed and code that
    cannot be had again are refused.
    """
    config = call.read(replicas=replicas)
    again = prepare_again(config, run, sweep, tolerance)
    file = again.request.file
    with telling_remains(lambda failure: describe_file(again.project, file, failure)):
        with showing_busy():
            launch = pipeline.up(again.project, again.request)
        with closing(launch, False):
            follow(launch, plain or call.output == "json")
    snapshot = get_snapshot(launch.server.client, launch.path)
    judgement = judge_again(again, snapshot, tolerance)
    content = {"run": again.row.run_id, "metric": again.metric, "sweep": launch.sweep_path}
    if judgement is None:
        logged = list_logged_again(again, snapshot)
        call.emit({**content, "logged": logged}, _describe_finished(again, logged))
        return
    sentence = _describe(again, judgement)
    call.emit({**content, **vars(judgement), "within": judgement.within}, sentence)
    if not judgement.within:
        raise SweepFailed(sentence, f"deployer results {launch.path}")


def _describe_finished(again: Again, logged: Mapping[str, tuple[float, float]]) -> str:
    numbers = [
        f"{name} {format_value(then)}, again {format_value(now)}"
        for name, (then, now) in logged.items()
    ]
    return "; ".join([f"run {again.row.run_id} has finished again", *numbers])


def _describe(again: Again, judgement: Judgement) -> str:
    repeats = ", ".join(format_value(value) for value in judgement.repeats)
    allowed = (
        f"{format_value(judgement.distance)} apart, {format_value(judgement.tolerance)} allowed"
    )
    value = format_value(judgement.value)
    outcome = "reproduced" if judgement.within else "not reproduced"
    was = f"{again.metric} {value} of run {again.row.run_id}, again {repeats}"
    return f"{outcome}: {was} ({allowed})"
