"""`deployer up`: the whole way from a sweep file to a ranking."""

from __future__ import annotations

from typing import Annotated

import typer

from deployer.cli.running.live_view import Following
from deployer.cli.running.to_end import run_to_end
from deployer.cli.shell.call import App, Call
from deployer.cli.shell.confirmation import can_ask
from deployer.cli.shell.options import (
    CapacityOption,
    DetachOption,
    DownAfterOption,
    FileArgument,
    MaxTimeOption,
    NoCheckOption,
    OneRunOption,
    PackingOption,
    PendingTimeoutOption,
    PlainOption,
    ReplicasOption,
    RetriesOption,
    RunCapOption,
    SeedOption,
)
from deployer.launch.remains import describe_file, telling_remains
from deployer.launch.request import Request
from deployer.launch.reuse import prepare_reuse
from deployer.sweeps.creation import Draws
from deployer.sweeps.sweep_file import load_sweep

app = App()

NewOption = Annotated[
    bool,
    typer.Option("--new", help="Create another sweep even if this file already has one."),
]
ReuseOption = Annotated[
    str | None,
    typer.Option(
        "--reuse",
        metavar="SWEEP",
        help="Skip grid configurations that SWEEP has finished.",
    ),
]


@app.command()
def up(
    call: Call,
    file: FileArgument,
    replicas: ReplicasOption = None,
    packing: PackingOption = None,
    plain: PlainOption = False,
    detach: DetachOption = False,
    new: NewOption = False,
    reuse: ReuseOption = None,
    run_cap: RunCapOption = None,
    seed: SeedOption = None,
    retries: RetriesOption = None,
    one_run_per_job: OneRunOption = False,
    max_time: MaxTimeOption = None,
    pending_timeout: PendingTimeoutOption = None,
    down_after: DownAfterOption = False,
    wait_for_capacity: CapacityOption = None,
    no_check: NoCheckOption = False,
) -> None:
    """Run a sweep to its end: create or continue it, start agents, watch, rank.

    Exit codes: 0 if every configuration finished; 3 if agents started and a configuration did not
    finish; 1 or 2 if `up` refused to start or lost the server. Ctrl-C detaches (130).

    With --yes, `up` continues if the script fails the flag check.
    """
    following = Following(
        call.output, call.yes, plain, detach, down_after, replicas, pending_timeout
    )
    following.check()
    config = call.read(replicas=replicas)
    with telling_remains(lambda failure: describe_file(config, file, failure)):
        request = Request(
            file,
            load_sweep(file, run_cap),
            Draws(seed, retries),
            continued=not new,
            one_run=one_run_per_job,
            max_seconds=max_time,
            capacity_seconds=wait_for_capacity or 0.0,
            check_script=not no_check,
            asks=can_ask() and not call.yes,
            packing=packing,
        )
        if reuse:
            config, request = prepare_reuse(config, request, reuse)
        run_to_end(config, request, following)
