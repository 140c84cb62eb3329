"""`deployer watch`, and the view of a sweep that `up` shares."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from deployer.agent.exit_codes import MISCONFIGURED
from deployer.cli.output.live import is_drawn, open_live
from deployer.cli.output.render import say
from deployer.cli.output.status import (
    build_live_view,
    build_reason_lines,
    build_status_line,
    list_facts,
)
from deployer.cli.ranking import check_ranked, show_outcome
from deployer.cli.shell.call import App, Call
from deployer.cli.shell.options import (
    PendingTimeoutOption,
    PlainOption,
    SweepArgument,
    read_duration,
)
from deployer.errors import AgentError, BackendStopped, ConfigError, KubeError, SweepFailed
from deployer.executors.registry import find_executor
from deployer.launch.pipeline import Launch, ask_patiently, count_later, watch_sweep
from deployer.launch.provision import describe_agents, reporting_remains
from deployer.launch.scaling import read_wanted
from deployer.model import Agent, SweepPath
from deployer.sweeps.records import Records
from deployer.sweeps.recount import read_dropped
from deployer.sweeps.rerun import get_full_snapshot
from deployer.sweeps.results import Results, build_results
from deployer.watch.reconciliation import build_stopped
from deployer.watch.rules import AT_WORK, HANDING_OUT
from deployer.watch.status import Status

LINE_SECONDS = 60.0  # between two lines in a pipe that differ only in time
app = App()


@dataclass(frozen=True)
class Following:
    """How to follow a sweep: whether at all, the output, the timeouts, and the end.

    Agents in excess of `replicas` leave, if it is given.
    """

    output: str
    yes: bool
    plain: bool
    detach: bool
    down_after: bool = False
    replicas: int | None = None
    pending_seconds: float | None = None

    def check(self) -> None:
        """Reject flags that exclude each other; raises ConfigError."""
        if self.detach and self.down_after:
            said = "cannot be combined with --detach"
            raise ConfigError("--down-after", said, "remove --detach")


def follow_and_report(
    launch: Launch,
    output: str,
    *,
    plain: bool,
    timeout_seconds: float | None = None,
    pending_seconds: float | None = None,
) -> None:
    """Show the sweep until it is over, then its results.

    Dead agents are replaced. Raises SweepFailed unless all configurations finished, WatchTimeout;
    StartFailed if no agent has started after `pending_seconds`, or none can.
    """
    last = follow(launch, plain or output == "json", timeout_seconds, pending_seconds)
    _report(launch, output, last)


def say_what_begins_later(launch: Launch) -> None:
    """Print that the remaining runs need a watcher, if each agent takes only one run."""
    later = count_later(launch.server, launch.path, launch.agents)
    if later != 0:
        rest = f"the other {later}" if later else "the others"
        say(f"one run each; a watcher starts {rest}: deployer watch {launch.path}")


def follow(
    launch: Launch,
    plain: bool,
    timeout_seconds: float | None = None,
    pending_seconds: float | None = None,
) -> Status:
    """Show the sweep until it is over and return its last status; Ctrl-C only ends the view.

    With a price, also shows the remaining cost of the sweep.
    """
    path = launch.path
    executor = launch.executor
    agents = executor.list_agents(launch.sweep_path) if executor.cluster else ()
    usd_per_hour = executor.cluster.get_usd_per_hour(agents) if executor.cluster else None
    statuses = watch_sweep(
        launch,
        timeout_seconds=timeout_seconds,
        pending_seconds=pending_seconds,
        every=is_drawn(plain),
    )
    try:
        return show_statuses(statuses, plain, usd_per_hour, name=_name_file(path))
    except KeyboardInterrupt:
        say(f"\ndetached; the agents continue. Reattach: deployer watch {path}")
        raise


def wait_until_started(launch: Launch, pending_seconds: float) -> None:
    """Watch until an agent works, and print why none does yet.

    Raises StartFailed if none has after `pending_seconds`, or none can.
    """
    told: set[str] = set()
    for status in watch_sweep(launch, pending_seconds=pending_seconds):
        _say_reasons(status, told)
        if any(agent.state in AT_WORK for agent in status.agents):
            return


def _say_reasons(status: Status, told: set[str]) -> None:
    """Print why agents do not start, each cause once."""
    for cause, reason in build_reason_lines(status).items():
        if cause not in told:
            say(f"       {reason}")
            told.add(cause)


def _report(launch: Launch, output: str, last: Status) -> None:
    server, path = launch.server, launch.path
    try:
        snapshot = ask_patiently(server, lambda: get_full_snapshot(server, path))
    except BackendStopped as error:
        raise build_stopped(path, "results") from error
    results = read_dropped(server, build_results(snapshot.sweep, snapshot.runs, launch.expected))
    show_outcome(server, launch.executor, path, results, output)
    if results.state == "PAUSED":
        raise SweepFailed(
            f"{path} is PAUSED and has no agents: {results.coverage.sentence()}",
            f"deployer sweep resume {path}, then deployer agents up {path} --replicas N",
        )
    if not results.coverage.complete:
        reason = f"stopped, since {results.stop_reason}: " if results.stop_reason else ""
        reason = reason or ("--max-time has passed: " if last.out_of_time else "")
        raise SweepFailed(
            f"{path}: {reason}{results.coverage.sentence()}", _choose_next(results, last.agents)
        )
    check_ranked(results)


def _choose_next(results: Results, agents: Sequence[Agent]) -> str:
    """Return the next command: to examine failures, or to run missing configurations.

    Causes that make every start of an agent fail must be fixed first.
    """
    path = results.sweep_path
    if results.failures:
        return f"deployer agents logs {path}"
    useless = next((f"{a.reason}; then: " for a in agents if a.exit_code == MISCONFIGURED), "")
    return f"{useless}deployer {'agents up' if results.state in HANDING_OUT else 'heal'} {path}"


def _name_file(path: SweepPath) -> str:
    return next((Path(one.file).stem for one in Records.load().of(str(path)) if one.file), "")


def show_statuses(
    statuses: Iterator[Status], plain: bool, usd_per_hour: float | None = None, name: str = ""
) -> Status:
    """Show each status: redrawn in place on a terminal, else as a line."""
    started = time.monotonic()  # unaffected by changes of the clock
    last: Status | None = None
    shown: list[str] = []
    shown_at = 0.0
    told: set[str] = set()
    with open_live(plain) as live:
        for last in statuses:
            now = time.time()
            if live is not None:
                view = build_live_view(last, now, usd_per_hour, live.console.size, name)
                live.update(view, refresh=True)
                continue
            facts, elapsed = list_facts(last), time.monotonic() - started
            if facts != shown or elapsed - shown_at >= LINE_SECONDS:
                say(f"{_clock(elapsed)}  {build_status_line(last, now, usd_per_hour)}")
                shown, shown_at = facts, elapsed
            _say_reasons(last, told)
    assert last is not None  # the first status is always yielded
    return last


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:02d}:{rest:02d}"


@app.command()
def watch(
    call: Call,
    sweep: SweepArgument = None,
    plain: PlainOption = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            parser=read_duration,
            help="Stop watching after this time, such as 30m, with exit code 4.",
        ),
    ] = None,
    pending_timeout: PendingTimeoutOption = None,
) -> None:
    """Show a sweep live until it ends, then its ranking.

    Exit codes as for `up`, and 4 if the sweep is still running after --timeout.
    """
    config, server, path = call.connect(sweep, reading=not _are_agents_wanted(call, sweep))
    launch = Launch(config, find_executor(config), server, path)
    for line in launch.server.page_lines(launch.path):
        say(line)
    here = [(launch.sweep_path, (launch.project.on, "", ""))]

    def describe(failure: BaseException) -> Iterable[str]:
        wrong = isinstance(failure, ConfigError)  # then there is nothing to query
        return () if wrong else describe_agents(launch.project, here, failure)

    with reporting_remains(describe):
        follow_and_report(
            launch,
            call.output,
            plain=plain,
            timeout_seconds=timeout,
            pending_seconds=pending_timeout,
        )


def _are_agents_wanted(call: Call, sweep: str | None) -> bool:
    """Return True if a watcher has agents to replace, for which a backend that stopped is started.

    So it is where that cannot be read now.
    """
    _, executor, path = call.find(sweep)
    try:
        wanted = read_wanted(executor, str(path))
    except (AgentError, KubeError):
        return True
    return wanted is not None and wanted.number > 0
