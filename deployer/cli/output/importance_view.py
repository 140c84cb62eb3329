"""Parameter importance as a table and as JSON."""

from __future__ import annotations

from deployer.analysis.importance import Importance
from deployer.cli.output.render import say, show, show_json, show_table
from deployer.text import format_count

COLUMNS = ("PARAMETER", "EXPLAINS %", "±", "CORRELATION", "RUNS", "")


def show_importance(found: Importance, sweep: str, output: str) -> None:
    """Put importance on stdout, the sentence last."""
    if output == "json":
        show_json({"sweep": sweep, **vars(found), "sentence": found.sentence()})
        return
    if found.parameters:
        show_table(COLUMNS, build_importance_rows(found))
    for line in build_importance_notes(found):
        say(line)
    show(found.sentence())


def build_importance_rows(found: Importance) -> list[list[object]]:
    """Return a row for each parameter, with `COLUMNS`."""
    rows: list[list[object]] = []
    for one in found.parameters:
        share, deviation = one.percents
        correlation = None if one.correlation is None else round(one.correlation, 2)
        verdict = "" if one.told else "maybe noise"
        rows.append([one.name, share, deviation, correlation, one.runs, verdict])
    return rows


def build_importance_notes(found: Importance) -> list[str]:
    """Return what was left out, and how much all parameters explain together."""
    notes = []
    if found.explained is not None:
        together = round(100 * found.explained)
        notes.append(f"all of them explain {together} % of {found.metric} in runs not seen before")
    if found.left_out:
        runs = format_count(found.left_out, "run")
        notes.append(f"left out: {runs} not finished, or without a finite {found.metric}")
    if found.names:
        notes.append(f"left out: {', '.join(found.names)}, another text in every run")
    return notes
