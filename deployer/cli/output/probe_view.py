"""What a sweep's probe has shown, as lines and as JSON."""

from __future__ import annotations

from typing import Any

from deployer.text import format_bytes, format_count, format_seconds, format_value
from deployer.watch.probe import Report, Rest, Verdict

SHOWN_NAMES = 6


def build_probe_lines(report: Report, rest: Rest | None, *, priced: bool) -> list[str]:
    """Return what the probe's run has shown, and the rest; `priced` if agents cost money.

    Empty if the run has failed.
    """
    if report.row is None or report.verdict is Verdict.FAILED:
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
        "the rest": _say_rest(rest, priced=priced) if rest else "",
    }
    lines = [f"  {label:<10}{words}" for label, words in said.items() if words]
    return [f"the probe, {title}, {seen}; it counts as a run of the sweep", *lines]


def probe_to_plain(report: Report, rest: Rest | None) -> dict[str, Any]:
    """Return a probe as JSON shows it."""
    return {**vars(report), "rest": rest}


def _say_logged(report: Report) -> str:
    if not report.logged:
        return "nothing yet" if report.going else "nothing"
    ordered = sorted(report.logged, key=lambda name: (name != report.metric, name))
    hidden = len(ordered) - SHOWN_NAMES
    names = ", ".join(ordered[:SHOWN_NAMES]) + (f" and {hidden} more" if hidden > 0 else "")
    pace = f", {format_pace(report.rows_per_minute)}" if report.rows_per_minute else ""
    return f"{names}; {format_count(report.rows, 'step')}{pace}"


def format_pace(rows: float) -> str:
    """Return how often a run logs: `12 a minute`."""
    return f"{rows:.0f} a minute" if rows >= 10 else f"{rows:.2g} a minute"


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
