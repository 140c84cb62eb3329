"""`deployer up`: the whole way from a sweep file to a ranking."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import emit, say
from deployer.cli.running.live_view import (
    follow_and_report,
    say_what_begins_later,
    wait_until_started,
)
from deployer.cli.running.probe import Showing, ask_if_needed, run_after_probe
from deployer.cli.shell.call import App, Call
from deployer.cli.shell.confirmation import can_ask
from deployer.cli.shell.options import (
    CapacityOption,
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
from deployer.errors import ConfigError
from deployer.launch import pipeline
from deployer.launch.lock.file import name_lock
from deployer.launch.provision import closing
from deployer.launch.remains import describe_file, telling_remains
from deployer.launch.request import Packing, Request
from deployer.launch.reuse import prepare_reuse
from deployer.launch.starting import Launch, drain_surplus
from deployer.sweeps.creation import Draws
from deployer.sweeps.records import Records
from deployer.sweeps.sweep_file import load_sweep
from deployer.text import format_count

app = App()

DetachOption = Annotated[bool, typer.Option("--detach", help="Return once the agents are started.")]
ProbeOption = Annotated[
    bool,
    typer.Option(
        "--probe",
        help="Look at one run for a minute, say what it shows, then ask before the rest starts.",
    ),
]
NewOption = Annotated[
    bool,
    typer.Option("--new", help="Create a new sweep beside an earlier one."),
]
ReuseOption = Annotated[
    str | None,
    typer.Option(
        "--reuse",
        metavar="SWEEP",
        help="Of a grid, run only what this sweep has not finished; refused if the code differs.",
    ),
]
DownAfterOption = Annotated[
    bool,
    typer.Option(
        "--down-after", help="After the end, delete what was made; with --on gke the cluster."
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
    probe: ProbeOption = False,
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

    Exit code 0 only if every configuration is finished; 3 if agents were started and it is not; 1
    or 2 if it was refused before that, or a server was lost. Ctrl-C detaches. With --probe, 3 if
    the first run failed, 4 if the rest was not started.

    With --yes it goes on where the trial start has raised an error, and after a good probe.
    """
    _check_words(detach, down_after, packing, probe)
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
            lock=name_lock(file),
            check_script=not no_check,
            asks=can_ask() and not call.yes,
            packing=packing,
        )
        if reuse:
            config, request = prepare_reuse(config, request, reuse)
        showing = Showing(call.output, plain, pending_timeout, down_after)
        if probe:
            run_after_probe(config, request, showing, yes=call.yes)
        else:
            run_to_end(config, request, showing, replicas, detach=detach)


def run_to_end(
    config: Project, request: Request, showing: Showing, replicas: int | None, *, detach: bool
) -> None:
    """Start what is asked for, then follow it to its end, or with `detach` return before that."""

    began = time.time()

    def begin(request: Request) -> Launch:
        with showing_busy(showing.plain):
            launch = pipeline.up(config, request)
            drain_surplus(launch, replicas)
            return launch

    try:
        launch = ask_if_needed(begin, request)
    except KeyboardInterrupt:
        _say_what_was_made(request, began)
        raise
    output, pending = showing.output, showing.pending_seconds
    if detach:
        _leave(launch, pending, output)
        return
    with closing(launch, showing.down_after):
        follow_and_report(launch, output, plain=showing.plain, pending_seconds=pending)


def _say_what_was_made(request: Request, since: float) -> None:
    """After Ctrl-C name the sweep that was made since then, and the command that goes on."""
    for record in Records.load().made_from(request.file):
        if record.sweep_path and record.created_at >= since:
            say(f"\n{record.sweep_path} is made; to go on: deployer agents up {record.sweep_path}")


def _check_words(detach: bool, down_after: bool, packing: Packing | None, probe: bool) -> None:
    """Refuse what needs somebody who watches where nobody does."""
    if detach and probe:
        said = "somebody has to see what the first run shows"
        raise ConfigError("--probe", said, "leave out --detach; Ctrl-C detaches later")
    if detach and down_after:
        raise ConfigError("--down-after", "somebody has to see the end", "leave out --detach")
    if detach and packing and packing.agents is None:
        said = "`auto` adds agents for as long as somebody watches"
        raise ConfigError("--packing", said, "leave out --detach, or give a number: --packing 2")


def _leave(launch: Launch, pending_seconds: float | None, output: str) -> None:
    """Return once the agents are started, or one works if that is asked for."""
    if pending_seconds is not None:
        wait_until_started(launch, pending_seconds)
    _say_how_to_reattach(launch, output)
    say_what_begins_later(launch)


def _say_how_to_reattach(launch: Launch, output: str) -> None:
    path, agents = launch.path, launch.agents
    starting = sum(agent.state == "starting" for agent in agents)
    state = f", {starting} of them starting" if starting else " at work"
    say(f"{format_count(len(agents), 'agent')}{state}")
    say(f"reattach: deployer watch {path}")
    emit({"sweep": str(path), "agents": [agent.name for agent in agents]}, output)
