"""Runs as plain data without values of secrets: nested for JSON, flat for CSV and pandas; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from deployer.config.redaction import find_hidden, redact, redact_text
from deployer.sweeps.results import Results, Row
from deployer.text import name_columns

NESTED = ("parameters", "summary", "attempts")
SHOWN_ALONE = "word"  # JSON has W&B's own word, `state`
KEYS = tuple(one.name for one in fields(Row) if one.name not in (*NESTED, SHOWN_ALONE))


def row_to_plain(row: Row) -> dict[str, Any]:
    """Return a run with stable keys, without values of secrets."""
    plain = {"parameters": redact(row.parameters), "summary": redact(row.summary)}
    kept = {name: value for name, value in vars(row).items() if name != SHOWN_ALONE}
    return {**kept, **plain}


def build_run_command(results: Results) -> str | None:
    """Return what to paste to run the best configuration again, without values of secrets."""
    if not results.best:
        return None
    hidden = find_hidden(results.best.parameters)
    return f"deployer run -- {redact_text(results.command, hidden)}"


def flatten_rows(
    rows: Sequence[Row], keys: Sequence[str], metric: str | None
) -> tuple[list[str], list[list[Any]]]:
    """Return the names of columns, and a list of values for each run; None if it has none.

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
    """Return the names that any of some plain rows has in a part such as `parameters`."""
    return list(dict.fromkeys(name for one in plain for name in one[part]))
