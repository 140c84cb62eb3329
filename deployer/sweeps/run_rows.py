"""Runs in words and as plain data (nested for JSON, flat for CSV), without secrets; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from deployer.config.redaction import find_hidden, redact, redact_text
from deployer.sweeps.results import Results, Row
from deployer.text import format_parameter, name_columns

NESTED = ("parameters", "summary", "attempts")
SHOWN_ALONE = "word"  # JSON has W&B's own state instead, `state`
KEYS = tuple(one.name for one in fields(Row) if one.name not in (*NESTED, SHOWN_ALONE))
MOST_PARAMETERS = 20  # more do not fit in a readable line or table


def row_to_plain(row: Row) -> dict[str, Any]:
    """Return a run with stable keys, without secret values."""
    plain = {"parameters": redact(row.parameters), "summary": redact(row.summary)}
    kept = {name: value for name, value in vars(row).items() if name != SHOWN_ALONE}
    return {**kept, **plain}


def build_run_command(results: Results) -> str | None:
    """Return the command that runs the best configuration again, without secret values."""
    if not results.best:
        return None
    hidden = find_hidden(results.best.parameters)
    return f"deployer run -- {redact_text(results.command, hidden)}"


def flatten_rows(
    rows: Sequence[Row], keys: Sequence[str], metric: str | None
) -> tuple[list[str], list[list[Any]]]:
    """Return column names, and a list of values for each run; None where it has none.

    Columns are the row's `keys`, `attempts` (their number), the metric by its name, parameters
    (`config.NAME` if another column has the name), and logged values (`summary.NAME`).
    """
    plain = [row_to_plain(row) for row in rows]
    names, logged = list_names(plain, "parameters"), list_names(plain, "summary")
    own, summaries = [*keys, "attempts"], [f"summary.{name}" for name in logged]
    metrics = [metric] if metric else []
    taken = [*own, *name_columns(metrics, [*own, *summaries], "metric.")]
    return [*taken, *name_columns(names, [*taken, *summaries]), *summaries], [
        [*(r[key] for key in keys), len(r["attempts"]) or None]
        + [r["value"]] * len(metrics)
        + [r["parameters"].get(name) for name in names]
        + [r["summary"].get(name) for name in logged]
        for r in plain
    ]


def list_names(plain: Sequence[Mapping[str, Any]], part: str) -> list[str]:
    return list(dict.fromkeys(name for one in plain for name in one[part]))


def describe_configuration(row: Row, among: Sequence[Row] = ()) -> str:
    """Return a run's parameters as `lr=0.1, batch_size=32`, without secret values.

    Leaves out parameters that are equal in all runs of `among`, and those after the first 20.
    """
    shown = redact(row.parameters)
    varying = list_varying([one.parameters for one in among]) if among else shown
    names = [name for name in shown if name in varying]
    more = max(0, len(names) - MOST_PARAMETERS)
    named = [f"{name}={word_value(shown[name])}" for name in names[:MOST_PARAMETERS]]
    return ", ".join(named + [f"and {more} more"] * bool(more)) or "no parameters"


def word_value(value: object) -> str:
    return json.dumps(value) if isinstance(value, list | dict) else format_parameter(value)


def list_varying(configurations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the parameters that differ between configurations; all of them if none differs."""
    names = list(dict.fromkeys(name for one in configurations for name in one))
    varying = [n for n in names if len({repr(one.get(n)) for one in configurations}) > 1]
    return varying or names
