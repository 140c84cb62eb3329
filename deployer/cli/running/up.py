"""`deployer up`: a sweep to its end, and what is told there."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import replace
from typing import Annotated

import typer

from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import emit, say
from deployer.cli.running.watch import (
    Following,
    follow_and_report,
    say_what_begins_later,
    wait_until_started,
)
from deployer.cli.shell.call import App, Call, can_ask, confirm
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
from deployer.config.project import Project
from deployer.errors import ScriptRaised, SweepEnded
from deployer.launch import pipeline
from deployer.launch.pipeline import Launch, drain_surplus
from deployer.launch.provision import closing, describe_file, telling_remains
from deployer.launch.request import Request
from deployer.launch.reuse import prepare_reuse
from deployer.sweeps.creation import Draws
from deployer.sweeps.records import Records
from deployer.sweeps.sweep_file import load_sweep
from deployer.text import format_count

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


def run_to_end(config: Project, request: Request, following: Following) -> None:
    """Start what is asked for, then follow it to its end, or with `detach` return before that."""
    began, output, pending = time.time(), following.output, following.pending_seconds
    try:
        launch = _begin(config, request, following)
    except KeyboardInterrupt:
        _say_what_was_made(request, began)
        raise
    if following.detach:
        if pending is not None:
            wait_until_started(launch, pending)
        say_how_to_reattach(launch, output)
        say_what_begins_later(launch)
        return
    with closing(launch, following.down_after):
        follow_and_report(launch, output, plain=following.plain, pending_seconds=pending)


def _begin(config: Project, request: Request, following: Following) -> Launch:
    """Start agents; ask on a terminal if the sweep has ended, or its script raised an error."""
    try:
        with showing_busy(following.plain):
            launch = pipeline.up(config, request)
            drain_surplus(launch, following.replicas)
            return launch
    except SweepEnded as error:
        if not (can_ask() and confirm(f"{error.message}; run everything again?")):
            raise
        request = replace(request, continued=False)
    except ScriptRaised as error:
        if not confirm(f"{error.message}; start anyway?"):
            raise
        request = replace(request, check_script=False)
    return _begin(config, request, following)


def _say_what_was_made(request: Request, since: float) -> None:
    """After Ctrl-C name the sweep that was made since then, and the command that goes on."""
    typed = _name_command()
    for record in Records.load().made_from(request.file):
        if record.sweep_path and record.created_at >= since:
            again = f"deployer agents up {record.sweep_path}" if request.words else typed
            say(f"\n{record.sweep_path} is made; to go on: {again}")


def _name_command() -> str:
    """Return the command as it was typed, but for `--new`."""
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)  # of our own flags
    own = [word for word in words[:end] if word != "--new"]
    return f"deployer {shlex.join([*own, *words[end:]])}"


def say_how_to_reattach(launch: Launch, output: str) -> None:
    """Say how many agents work, and the command that follows them."""
    path, agents = launch.path, launch.agents
    starting = sum(agent.state == "starting" for agent in agents)
    state = " starting"
    if starting < len(agents):
        state = f", {starting} of them starting" if starting else " at work"
    say(f"{format_count(len(agents), 'agent')}{state}")
    say(f"reattach: deployer watch {path}")
    emit({"sweep": str(path), "agents": [agent.name for agent in agents]}, output)


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
