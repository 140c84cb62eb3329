"""A sweep without the values of parameters whose names are those of secrets; pure."""

from __future__ import annotations

from dataclasses import replace

from deployer.config.redaction import redact
from deployer.model import Run, Sweep
from deployer.sweeps.results import Results, Row


def redact_sweep(sweep: Sweep) -> Sweep:
    """Return a sweep whose config names no secret."""
    return replace(sweep, config=redact(sweep.config))


def redact_run(run: Run) -> Run:
    """Return a run whose config names no secret."""
    return replace(run, config=redact(run.config))


def redact_results(results: Results) -> Results:
    """Return results whose rows name no secret.

    They are counted before: two configurations that differ in a secret alone are still two.
    """
    return replace(
        results,
        rows=tuple(_redact_row(row) for row in results.rows),
        best=_redact_row(results.best) if results.best else None,
        failures=tuple(_redact_row(row) for row in results.failures),
    )


def _redact_row(row: Row) -> Row:
    return replace(row, parameters=redact(row.parameters), summary=redact(row.summary))
