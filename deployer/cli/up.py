"""`deployer up`, `run` and `heal`: run a sweep, or one command, to its end."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import emit, say
from deployer.cli.shell.call import App, Call, Command, can_ask, confirm
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
    SweepArgument,
)
from deployer.cli.shell.usage import UsageError
from deployer.cli.watch import (
    Following,
    follow_and_report,
    say_what_begins_later,
    wait_until_started,
)
from deployer.config.project import Project
from deployer.errors import ScriptRaised, SweepEnded
from deployer.executors.registry import find_executor
from deployer.launch import pipeline
from deployer.launch.pipeline import Launch, add_agents, drain_surplus, resolve_project_code
from deployer.launch.provision import closing, describe_file, reporting_remains
from deployer.launch.request import SweepRequest
from deployer.launch.reuse import prepare_reuse
from deployer.launch.scaling import read_wanted
from deployer.model import SweepPath
from deployer.sweeps.creation import Draws
from deployer.sweeps.records import Records
from deployer.sweeps.rerun import Healing, heal_sweep
from deployer.sweeps.sweep_file import PLACE, build_command_sweep, load_sweep
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
END = "--"
WORDS = "deployer.words"  # in the context: the words after `--`


def run_to_end(config: Project, request: SweepRequest, following: Following) -> None:
    began, output, pending = time.time(), following.output, following.pending_seconds
    try:
        launch = _begin(config, request, following)
    except KeyboardInterrupt:
        # After Ctrl-C name the sweep that was just made, and the command that continues.
        words = sys.argv[1:]
        end = words.index("--") if "--" in words else len(words)  # end of our own flags
        own = [word for word in words[:end] if word != "--new"]
        typed = f"deployer {shlex.join([*own, *words[end:]])}"
        for record in Records.load().made_from(request.file):
            if record.sweep_path and record.created_at >= began:
                again = f"deployer agents up {record.sweep_path}" if request.words else typed
                say(f"\n{record.sweep_path} is created; to continue: {again}")
        raise
    if following.detach:
        if pending is not None:
            wait_until_started(launch, pending)
        say_how_to_reattach(launch, output)
        say_what_begins_later(launch)
        return
    with closing(launch, following.down_after):
        follow_and_report(launch, output, plain=following.plain, pending_seconds=pending)


def _begin(config: Project, request: SweepRequest, following: Following) -> Launch:
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


def say_how_to_reattach(launch: Launch, output: str) -> None:
    """Print how many agents work, and the command that follows them."""
    path, agents = launch.path, launch.agents
    starting = sum(agent.state == "starting" for agent in agents)
    state = " starting"
    if starting < len(agents):
        state = f", {starting} of them starting" if starting else " running"
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
    with reporting_remains(lambda failure: describe_file(config, file, failure)):
        request = SweepRequest(
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


# `deployer run`: one training run, whose command follows `--`.

run_app = App()


class CommandBehindDashes(Command):
    """A command whose arguments, all after `--`, are the words of another command."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse our own flags, and keep the rest verbatim; raises UsageError without `--`."""
        end = args.index(END) if END in args else len(args)
        own, words = args[:end], args[end + 1 :]
        ctx.allow_extra_args, ctx.allow_interspersed_args = True, False
        super().parse_args(ctx, list(own))
        if stray := [*ctx.args]:
            flags = own[: len(own) - len(stray)]
            behind = [*stray, END, *words] if end < len(args) else stray
            typed = shlex.join(["deployer", "run", *flags, END, *behind])
            raise UsageError(f"{stray[0]}: write the command after {END}", typed)
        if not words:
            typed = shlex.join(["deployer", "run", *own, END, "python", "train.py"])
            raise UsageError(f"deployer run: write a command after {END}", typed)
        ctx.meta[WORDS] = tuple(words)
        return []

    def collect_usage_pieces(self, _ctx: Any) -> list[str]:
        return ["[OPTIONS]", "-- COMMAND..."]


@run_app.command(cls=CommandBehindDashes)
def run(
    call: Call,
    plain: PlainOption = False,
    detach: DetachOption = False,
    retries: RetriesOption = None,
    max_time: MaxTimeOption = None,
    pending_timeout: PendingTimeoutOption = None,
    down_after: DownAfterOption = False,
    wait_for_capacity: CapacityOption = None,
    no_check: NoCheckOption = False,
) -> None:
    """Run one command as a sweep of one run, with its arguments unchanged.

    `results`, `agents logs` and `down` work on it as on any sweep. A command that
    exits with 0 has succeeded, even without wandb. Each call of `deployer run` starts a new run.
    Exit codes: 0 if the command succeeded, 3 if not; 1 or 2 if `run` refused to start or lost the
    server. Ctrl-C detaches (130).
    """
    following = Following(
        call.output, call.yes, plain, detach, down_after=down_after, pending_seconds=pending_timeout
    )
    following.check()
    words = call.meta[WORDS]
    file = Path(PLACE)
    config = call.read(replicas=1).with_settings(warm=False)  # a single run needs no fork server
    with reporting_remains(lambda failure: describe_file(config, file, failure)):
        request = SweepRequest(
            file,
            build_command_sweep(words),
            Draws(None, retries),
            continued=False,
            max_seconds=max_time,
            capacity_seconds=wait_for_capacity or 0.0,
            check_script=not no_check,
            words=words,
        )
        run_to_end(config, request, following)


# `deployer heal`: rerun lost and failed runs.

heal_app = App()


@heal_app.command()
def heal(
    call: Call,
    sweep: SweepArgument = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            metavar="N",
            min=1,
            help="Start agents until N run; default: the sweep's earlier number.",
        ),
    ] = None,
    retries: RetriesOption = None,
) -> None:
    """Run lost and failed configurations again; on W&B's own servers as a follow-up sweep."""
    config, server, path = call.connect(sweep, replicas)
    say(f"using {server.describe()}")
    healing = heal_sweep(server, path, retries)
    say(_describe(path, healing))
    going = bool(healing.count or healing.waiting) or healing.sweep_path != path
    if going:
        config = resolve_project_code(config, str(path))  # the follow-up runs the original's code
        number = replicas or _count_wanted(config, path)
        with showing_busy():
            launch = add_agents(replace(config, replicas=number), server, healing.sweep_path)
        say(f"{format_count(len(launch.agents), 'agent')} started or running")
        say(f"follow: deployer watch {healing.sweep_path}")
    plain = {"original": str(path), **vars(healing), "sweep_path": str(healing.sweep_path)}
    call.emit(plain)


def _count_wanted(config: Project, path: SweepPath) -> int:
    """Return the wanted number of agents of the sweep; else the number in deployer.yaml."""
    wanted = read_wanted(find_executor(config), str(path))
    return (wanted.number if wanted else 0) or config.replicas


def _describe(path: SweepPath, healing: Healing) -> str:
    words = format_count(healing.count, "configuration")
    if healing.created:
        said = f"{path}: {words} to run again in the follow-up {healing.sweep_path}"
    elif healing.count:
        said = f"{path}: {words} to run again"
    elif healing.sweep_path != path:
        said = f"{path}: the missing configurations run in the follow-up {healing.sweep_path}"
    else:
        waiting = format_count(healing.waiting, "configuration")
        verb = "is" if healing.waiting == 1 else "are"
        queued = f"{waiting} {verb} queued" if healing.waiting else "nothing to run again"
        said = f"{path}: {queued}"
    if healing.unknown:
        said += f"; {healing.unknown} were never assigned and cannot be repeated"
    return said
