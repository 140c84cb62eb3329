"""Parameter importance as a table and as JSON."""

from __future__ import annotations

from deployer.analysis.importance import Importance, ParameterImportance
from deployer.cli.output.bars import build_bar
from deployer.cli.output.render import is_terminal, say, show, show_json, show_table
from deployer.text import format_count

COLUMNS = ("PARAMETER", "EXPLAINS", "±", "CORRELATION", "RUNS", "")


def show_importance(found: Importance, sweep: str, output: str) -> None:
    """Put importance on stdout, the sentence last."""
    if output == "json":
        show_json({"sweep": sweep, **vars(found), "sentence": found.sentence()})
        return
    if found.parameters:
        columns, rows = build_importance_table(found, bars=is_terminal())
        show_table(columns, rows)
    for line in build_importance_notes(found):
        say(line)
    show(found.sentence())


def build_importance_table(
    found: Importance, *, bars: bool
) -> tuple[list[str], list[list[object]]]:
    """Return columns and rows: one for each parameter, `bars` beside what it explains."""
    columns = [*COLUMNS[:2], *[""] * bars, *COLUMNS[2:]]
    rows = []
    for one in found.parameters:
        bar = build_bar(one.share, "green" if one.told else "bright_black")
        rows.append([one.name, _percent(one.share), *[bar] * bars, *_list_rest(one)])
    return columns, rows


def build_importance_notes(found: Importance) -> list[str]:
    """Return what was left out, and how much all parameters explain together."""
    notes = []
    if found.parameters:
        together = _percent(found.explained)
        notes.append(f"all of them explain {together} of {found.metric} in runs not seen before")
    if found.left_out:
        runs = format_count(found.left_out, "run")
        notes.append(f"left out: {runs} not finished, or without a finite {found.metric}")
    if found.names:
        notes.append(f"left out: {', '.join(found.names)}, another text in every run")
    return notes


def _list_rest(one: ParameterImportance) -> list[object]:
    correlation = "" if one.correlation is None else f"{one.correlation:+.2f}"
    verdict = "" if one.told else "cannot be told from noise"
    return [_percent(one.deviation), correlation, one.runs, verdict]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
