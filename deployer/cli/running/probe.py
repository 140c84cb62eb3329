"""`deployer up --probe`: show what the first run has shown, then ask for the rest."""

from __future__ import annotations

import difflib
import shlex
import sys

from deployer.cli.output.render import emit, say
from deployer.cli.running.live_view import Following, show_statuses
from deployer.cli.shell.confirmation import can_ask, confirm
from deployer.errors import RestWaits, SweepFailed
from deployer.launch.probe import judge, start_rest, want, watch_probe
from deployer.launch.request import Request
from deployer.launch.starting import Launch
from deployer.model import ENDED_SWEEP_STATES
from deployer.sweeps.endings import describe_attempt
from deployer.sweeps.results import Row
from deployer.text import format_bytes, format_count, format_seconds, format_value
from deployer.wandb_api.operations import get_sweep
from deployer.watch.probe import Probe, Report, Rest, Verdict
from deployer.watch.run_logs import get_run_tail

FAILURE_LINES = 10
SHOWN_NAMES = 6  # of what the probe has logged


def look_first(launch: Launch, request: Request, probe: Probe, following: Following) -> Launch:
    """Look at the probe's run, say what it shows, and start the rest if that is wanted.

    Raises SweepFailed if it was no good, RestWaits if the rest is not started.
    """
    report: Report | None = None
    try:
        say("looking at one run, for a minute once it logs")
        show_statuses(watch_probe(launch, probe, following.pending_seconds), following.all_plain)
        report = judge(launch, request, probe)
        for line in build_probe_lines(report, priced=not launch.executor.runs_here):
            say(line)
        wanted = _is_wanted(launch, report, yes=following.yes)
    except KeyboardInterrupt:
        say(f"\nthe rest is not started; to start it: {_name_rest()}")
        raise
    except SweepFailed:
        if report:
            emit(vars(report), following.output)
        raise
    if report.nothing_left:
        want(launch, 1)  # in its place, should it die
        return launch
    if wanted:
        return start_rest(launch, request, going=report.going)
    emit(vars(report), following.output)
    raise RestWaits(f"the rest of {launch.path} is not started", _name_rest())


def name_command(*dropped: str) -> str:
    """Return the command as it was typed, without some of its flags."""
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)  # of our own flags
    own = [word for word in words[:end] if word not in dropped]
    return f"deployer {shlex.join([*own, *words[end:]])}"


def _name_rest() -> str:
    return name_command("--probe", "--new", "--yes", "-y")


def _describe_end(row: Row) -> str:
    """Return how the run ended, where its server knows it."""
    last = row.attempts[-1] if row.attempts else None
    return f" ({describe_attempt(last.cause, last.exit_code)})" if last and last.cause else ""


def _is_wanted(launch: Launch, report: Report, *, yes: bool) -> bool:
    """Tell whether the rest shall start, if need be by asking; raises SweepFailed."""
    if report.verdict is Verdict.NO_RUN:
        return _is_nothing_left(launch, report)
    _check(launch, report)
    if report.nothing_left:
        return True
    if not yes and not can_ask():
        say("there is no terminal to ask on; --yes starts the rest after a good probe")
    if yes or not can_ask():
        return yes and report.verdict is Verdict.GOOD
    return confirm("start the rest?")


def _is_nothing_left(launch: Launch, report: Report) -> bool:
    """Tell whether no run was left for the agent; raises SweepFailed if it ended otherwise."""
    agents = {agent.name for agent in launch.agents}
    found = [a for a in launch.executor.list_agents(launch.sweep_path) if a.name in agents]
    if report.nothing_left:
        say("no run is left to look at")
        return True
    if all(agent.exit_code == 0 for agent in found):
        say("an earlier probe was just leaving: type the command again")
        return False
    why = "; ".join(f"{agent.name}: {agent.reason or agent.state}" for agent in found)
    said = f"the agent has left without a run, and nothing more is started: {why}"
    raise SweepFailed(said, f"deployer agents logs {launch.path}")


def _check(launch: Launch, report: Report) -> None:
    """Raise SweepFailed if the run has failed, or says nothing of the others."""
    if report.verdict is Verdict.OUT_OF_TIME:
        said = "the time of the probe is over (--max-time), and nothing more is started"
        raise SweepFailed(
            said, "type the command again, with a longer --max-time and without --new"
        )
    if report.verdict is Verdict.FAILED and report.row:
        tail = get_run_tail(launch.server, launch.executor, launch.path, report.row, FAILURE_LINES)
        for line in tail:
            say(f"  | {line}")
        said = f"{report.row.run_id}, the probe, has failed{_describe_end(report.row)}"
        if get_sweep(launch.server.client, launch.path).state in ENDED_SWEEP_STATES:
            again = f"mend it, then: deployer heal {launch.path}"
            raise SweepFailed(f"{said}, and the sweep with it", again)
        again = f"mend it, then: {name_command()}"
        raise SweepFailed(f"{said}, and nothing more is started", again)
    if report.verdict is Verdict.UNRANKED:
        raise _build_unranked(report)


def _build_unranked(report: Report) -> SweepFailed:
    if not report.logged:
        said = "the probe has finished and logged nothing; nothing more is started"
        return SweepFailed(said, f'run.log({{"{report.metric}": …}}) in the script')
    logged = ", ".join(report.logged)
    near = difflib.get_close_matches(str(report.metric), report.logged, n=1)
    meant = f" {near[0]}" if near else " what the script logs"
    return SweepFailed(
        f"the probe did not log {report.metric} but {logged}; nothing more is started",
        f"in the sweep's file, let metric: name: be{meant}",
    )


def build_probe_lines(report: Report, *, priced: bool) -> list[str]:
    """Return what the probe's run has shown, and the rest; `priced` if agents cost money.

    Empty if the run has failed.
    """
    if report.row is None or report.verdict in (Verdict.FAILED, Verdict.OUT_OF_TIME):
        return []
    title = report.row.title or report.row.run_id
    going = report.going
    ended = "finished after" if report.row.state == "finished" else f"{report.row.state} after"
    seen = f"{'has gone on for' if going else ended} {format_seconds(report.seen_seconds)}"
    said = {
        "logged": _say_logged(report),
        "metric": _say_metric(report, going=going),
        "a run": _say_length(report, going=going),
        "memory": _say_memory(report),
        "the rest": _say_rest(report.rest, priced=priced) if report.rest else "",
    }
    lines = [f"  {label:<10}{words}" for label, words in said.items() if words]
    return [f"the probe, {title}, {seen}; it counts as a run of the sweep", *lines]


def _say_logged(report: Report) -> str:
    if not report.logged:
        return "nothing yet" if report.going else "nothing"
    ordered = sorted(report.logged, key=lambda name: (name != report.metric, name))
    hidden = len(ordered) - SHOWN_NAMES
    names = ", ".join(ordered[:SHOWN_NAMES]) + (f" and {hidden} more" if hidden > 0 else "")
    pace = ""
    if rows := report.rows_per_minute:
        pace = f", {rows:.0f} a minute" if rows >= 10 else f", {rows:.2g} a minute"
    return f"{names}; {format_count(report.rows, 'step')}{pace}"


def _say_metric(report: Report, *, going: bool) -> str:
    if report.metric is None:
        return "the sweep has none"
    if report.value is None:
        if not report.logged:
            return ""
        return f"{report.metric} is not among it{' yet' if going else ''}"
    return f"{report.metric} {format_value(report.value)}"


def _say_length(report: Report, *, going: bool) -> str:
    if report.run_seconds is None:
        unknown = "how long it takes is known once one has ended"
        return f"{unknown}: nothing that it logs says how far it is" if going else unknown
    by = f", by {report.progress}" if report.progress else ""
    return f"about {format_seconds(report.run_seconds)}{by}"


def _say_memory(report: Report) -> str:
    parts = [
        f"{format_bytes(used)}{'' if name == 'memory' else f' of {name}'}"
        for name, used in report.memory.items()
        if used
    ]
    if not parts:
        return "not known here"
    return f"{', '.join(parts)}{', as W&B last measured it' if report.sampled else ' at most'}"


def _say_rest(rest: Rest, *, priced: bool) -> str:
    if rest.runs is None:
        return "the sweep has no end"
    if not rest.runs:
        return "nothing: this was the only run left"
    runs = format_count(rest.runs, "run")
    agents = format_count(rest.agents, "agent")
    if rest.seconds is None:
        return f"{runs} with {agents}"
    said = f"{runs}, about {format_seconds(rest.seconds)} with {agents}"
    if rest.usd is not None:
        return f"{said} for about ${rest.usd:.2f}"
    return f"{said}, at a price that is not known" if priced else said
